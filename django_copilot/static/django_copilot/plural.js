/**
 * Evaluate gettext plural expressions without eval, which a strict Content-Security-Policy forbids.
 *
 * The grammar is C's: ?:, ||, &&, == !=, < > <= >=, + -, * / %, !, parentheses, integers and `n`.
 */

const TOKEN = /\s*(\|\||&&|==|!=|<=|>=|\d+|n|[-<>?:+*/%!()])/y;

const LEVELS = [
  { "||": (a, b) => (a || b ? 1 : 0) },
  { "&&": (a, b) => (a && b ? 1 : 0) },
  { "==": (a, b) => (a === b ? 1 : 0), "!=": (a, b) => (a !== b ? 1 : 0) },
  {
    "<": (a, b) => (a < b ? 1 : 0),
    ">": (a, b) => (a > b ? 1 : 0),
    "<=": (a, b) => (a <= b ? 1 : 0),
    ">=": (a, b) => (a >= b ? 1 : 0),
  },
  { "+": (a, b) => a + b, "-": (a, b) => a - b },
  { "*": (a, b) => a * b, "/": (a, b) => Math.trunc(a / b), "%": (a, b) => a % b },
];

function tokens(source) {
  const found = [];
  const end = source.trimEnd().length;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const match = TOKEN.exec(source);
    if (match === null) throw new SyntaxError("not a plural expression");
    found.push(match[1]);
  }
  return found;
}

/** Compile an expression to a function of n; throws SyntaxError on anything outside the grammar. */
export function compilePlural(source) {
  const list = tokens(source);
  let at = 0;
  const take = (token) => {
    if (list[at] !== token) throw new SyntaxError("not a plural expression");
    at += 1;
  };
  const primary = () => {
    const token = list[at];
    at += 1;
    if (token === "n") return (n) => n;
    if (token === "!") {
      const inner = primary();
      return (n) => (inner(n) ? 0 : 1);
    }
    if (token === "(") {
      const inner = ternary();
      take(")");
      return inner;
    }
    const number = Number(token);
    if (token === undefined || !Number.isInteger(number)) throw new SyntaxError("not a plural expression");
    return () => number;
  };
  const binary = (level) => {
    if (level === LEVELS.length) return primary();
    let left = binary(level + 1);
    while (Object.hasOwn(LEVELS[level], list[at] ?? "")) {
      const apply = LEVELS[level][list[at]];
      at += 1;
      const first = left;
      const second = binary(level + 1);
      left = (n) => apply(first(n), second(n));
    }
    return left;
  };
  const ternary = () => {
    const condition = binary(0);
    if (list[at] !== "?") return condition;
    at += 1;
    const yes = ternary();
    take(":");
    const no = ternary();
    return (n) => (condition(n) ? yes(n) : no(n));
  };
  const compiled = ternary();
  if (at !== list.length) throw new SyntaxError("not a plural expression");
  return compiled;
}
