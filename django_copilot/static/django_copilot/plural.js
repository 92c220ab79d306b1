/**
 * Evaluate gettext plural expressions without eval, which a strict Content-Security-Policy forbids.
 *
 * The grammar is C's: ?:, ||, &&, == !=, < > <= >=, + -, * / %, !, parentheses, integers and `n`.
 */

const TOKEN = /\s*(\|\||&&|==|!=|<=|>=|\d+|n|[-<>?:+*/%!()])/y;

// By operator: how strongly it binds, and what it does.
const OPERATORS = new Map([
  ["||", [1, (a, b) => a || b]],
  ["&&", [2, (a, b) => a && b]],
  ["==", [3, (a, b) => a === b]],
  ["!=", [3, (a, b) => a !== b]],
  ["<", [4, (a, b) => a < b]],
  [">", [4, (a, b) => a > b]],
  ["<=", [4, (a, b) => a <= b]],
  [">=", [4, (a, b) => a >= b]],
  ["+", [5, (a, b) => a + b]],
  ["-", [5, (a, b) => a - b]],
  ["*", [6, (a, b) => a * b]],
  ["/", [6, (a, b) => Math.trunc(a / b)]],
  ["%", [6, (a, b) => a % b]],
]);

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
  const take = (token) => {
    if (list.shift() !== token) throw new SyntaxError("not a plural expression");
  };
  const primary = () => {
    const token = list.shift() ?? "";
    if (token === "n") return (n) => n;
    if (token === "!") {
      const inner = primary();
      return (n) => Number(!inner(n));
    }
    if (token === "(") {
      const inner = ternary();
      take(")");
      return inner;
    }
    if (!/^\d+$/.test(token)) throw new SyntaxError("not a plural expression");
    return () => Number(token);
  };
  const binary = (weakest) => {
    let left = primary();
    for (;;) {
      const [strength, apply] = OPERATORS.get(list[0]) ?? [0];
      if (strength < weakest) return left;
      list.shift();
      const first = left;
      const second = binary(strength + 1);
      left = (n) => Number(apply(first(n), second(n)));
    }
  };
  const ternary = () => {
    const condition = binary(1);
    if (list[0] !== "?") return condition;
    take("?");
    const yes = ternary();
    take(":");
    const no = ternary();
    return (n) => (condition(n) ? yes(n) : no(n));
  };
  const compiled = ternary();
  if (list.length > 0) throw new SyntaxError("not a plural expression");
  return compiled;
}
