// SPDX-License-Identifier: Apache-2.0

// Several ways of writing the same thing become one. Sources of the rules: hendrycks/math `math_equivalence.py`,
// openai/prm800k `grader.py`. `⦃ ⦄` are the braces of a set, `⏎` ends
// a matrix's row; plain braces only group.

const REPLACEMENTS: readonly (readonly [RegExp, string])[] = [
  [/\\\\/gu, "⏎"],
  [/[−–—]/gu, "-"],
  [/[×·⋅∙]/gu, "*"],
  [/÷/gu, "/"],
  [/²/gu, "^2"],
  [/³/gu, "^3"],
  [/½/gu, "(1/2)"],
  [/¼/gu, "(1/4)"],
  [/¾/gu, "(3/4)"],
  [/\\(?:left|right|bigl|bigr|Bigl|Bigr|big|Big|displaystyle|textstyle|limits)(?![A-Za-z])\.?/gu, ""],
  [/(\d)(?:\{,\}|\\,|,\\!)\s*(?=\d{3})/gu, "$1"],
  [/\\(?:text|textrm|mathrm|mbox)\s*\{\s*(and|or)\s*\}/gu, " $1 "],
  [/\\textnormal(?![A-Za-z])/gu, "\\text"],
  [/\\begin\s*\{array\}\s*\{[lcr|\s]*\}/gu, "\\begin{matrix}"],
  [/\\end\s*\{array\}/gu, "\\end{matrix}"],
  [/[([]\s*(\\begin\{matrix\}.*?\\end\{matrix\})\s*[)\]]/gu, "$1"],
  [/\\[!,;:> ]/gu, " "],
  [/\\(?:quad|qquad)(?![A-Za-z])|~/gu, " "],
  [/\\[dtc]frac(?![A-Za-z])/gu, "\\frac"],
  [/\\(?:cdot|times|ast)(?![A-Za-z])/gu, "*"],
  [/\\div(?![A-Za-z])/gu, "/"],
  [/\\(?:leq?|leqslant)(?![A-Za-z])|<=/gu, "≤"],
  [/\\(?:geq?|geqslant)(?![A-Za-z])|>=/gu, "≥"],
  [/\\(?:neq?)(?![A-Za-z])|!=/gu, "≠"],
  [/\\lt(?![A-Za-z])/gu, "<"],
  [/\\gt(?![A-Za-z])/gu, ">"],
  [/\\(?:infty|infinity)(?![A-Za-z])/gu, "∞"],
  [/\+∞/gu, "∞"],
  [/\\pm(?![A-Za-z])/gu, "±"],
  [/\\cup(?![A-Za-z])/gu, "∪"],
  [/\\in(?![A-Za-z])/gu, "∈"],
  [/\\pi(?![A-Za-z])/gu, "π"],
  [/\\[lr]?vert(?![A-Za-z])/gu, "|"],
  [/\\(?:lbrace|\{)/gu, "⦃"],
  [/\\(?:rbrace|\})/gu, "⦄"],
  [/\^\s*\{?\s*\\(?:circ|degree)\s*\}?|\\degree(?![A-Za-z])/gu, "°"],
  [/\\%/gu, "%"],
  [/\\\$/gu, "$"],
  [/\\[([\])]/gu, ""],
  [/\\operatorname\s*/gu, "\\"],
];

/** @param text  at most a few thousand characters: the work is linear in it. */
export function cleanLatex(text: string): string {
  let cleaned = text;
  for (const [pattern, replacement] of REPLACEMENTS) cleaned = cleaned.replace(pattern, replacement);
  return cleaned.replace(/\s+/gu, " ").trim();
}

const WRAPPERS = /^\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|rm|bf)\s*\{([^{}]*)\}$/u;

/** "\text{Monday}" → "Monday", "$5$" → "5", "**5**" → "5", "5." → "5". */
export function unwrap(text: string): string {
  let unwrapped = text.trim();
  for (let round = 0; round < 4; round += 1) {
    const before = unwrapped;
    unwrapped = withoutPair(withoutPair(withoutPair(unwrapped, "$$"), "**"), "$")
      .replace(WRAPPERS, "$1")
      .replace(/(?<=.)[.;,]$/u, "")
      .trim();
    if (unwrapped === before) break;
  }
  return unwrapped;
}

function withoutPair(text: string, mark: string): string {
  const inside = text.slice(mark.length, -mark.length);
  const paired =
    text.length > 2 * mark.length && text.startsWith(mark) && text.endsWith(mark) && !inside.includes(mark);
  return paired ? inside.trim() : text;
}
