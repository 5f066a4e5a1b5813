// SPDX-License-Identifier: Apache-2.0
import { cleanLatex, unwrap } from "./clean-latex.ts";
import { type AnswerShape, type Element, parseShape } from "./answer-shape.ts";
import { sameFormula } from "./same-formula.ts";
import { splitUnit } from "./units.ts";

/** Longer texts are no answers. */
const MAX_ANSWER_CHARACTERS = 1000;

/**
 * Whether an answer says the same as the truth. Exact for rational numbers (1/3 is not 0.333), 12 digits for the rest,
 * tests at fixed points for formulas with up to three variables. Says no where it cannot tell: never a wrong yes for the
 * sake of reading more. Bounded: no input makes it run for long or throw.
 */
export function mathEquivalent(answer: string, truth: string): boolean {
  if (answer.length > MAX_ANSWER_CHARACTERS || truth.length > MAX_ANSWER_CHARACTERS) return false;
  const [given, wanted] = [unwrap(cleanLatex(unwrap(answer))), unwrap(cleanLatex(unwrap(truth)))];
  if (given === "" || wanted === "") return false;
  const isSame = sameText(given, wanted) || sameShape(parseShape(given), parseShape(wanted));
  return (
    isSame ||
    (DECIMAL.test(wanted) && sameText(withPoint(given), wanted)) ||
    (DECIMAL.test(given) && sameText(given, withPoint(wanted)))
  );
}

const DECIMAL = /^-?\d+\.\d+$/u;

/** "1,22" where the other side is a decimal number; "1,222" is more than a thousand. */
function withPoint(text: string): string {
  return text.replace(/^(-?(?:0,\d+|\d+,(?!\d{3}$)\d+))$/u, (number) => number.replace(",", "."));
}

/** Case, spaces (but for those between digits) and grouping do not matter. */
function sameText(a: string, b: string): boolean {
  return textKey(a) === textKey(b);
}

function textKey(text: string): string {
  return text
    .replace(/^\d{1,3}(?: \d{3})+$/u, (number) => number.replaceAll(" ", ""))
    .replace(/\\(?:text|mathrm|mbox|textbf)\s*/gu, "")
    .replace(/[{}]|(?<!\d)\s|\s(?!\d)/gu, "")
    .toLowerCase();
}

function sameShape(given: AnswerShape, wanted: AnswerShape): boolean {
  if (wanted.kind === "between" || given.kind === "between") return sameBetween(given, wanted);
  if (wanted.kind === "relation" || given.kind === "relation") return sameRelation(given, wanted);
  if (given.kind !== wanted.kind) return false;
  if (given.kind === "single") return wanted.kind === "single" && sameElement(given.text, wanted.text);
  if (wanted.kind === "single" || given.elements.length !== wanted.elements.length) return false;
  if (given.brackets !== wanted.brackets) return false;
  return given.ordered ? sameInOrder(given.elements, wanted.elements) : sameInAnyOrder(given.elements, wanted.elements);
}

function sameInOrder(given: readonly Element[], wanted: readonly Element[]): boolean {
  return given.every((element, i) => sameNested(element, wanted[i] as Element));
}

/** Elements are few (`parseShape` bounds them), so that trying all pairs is cheap. */
function sameInAnyOrder(given: readonly Element[], wanted: readonly Element[]): boolean {
  const left = [...wanted];
  return given.every((element) => {
    const match = left.findIndex((candidate) => sameNested(element, candidate));
    if (match >= 0) left.splice(match, 1);
    return match >= 0;
  });
}

function sameNested(given: Element, wanted: Element): boolean {
  return sameShape(shapeOf(given), shapeOf(wanted));
}

function shapeOf(element: Element): AnswerShape {
  return typeof element === "string" ? { kind: "single", text: element } : element;
}

/** A truth "0 < x < 1" may be answered by its interval. Not the other way round: "(0, 1)" may be a point. */
function sameBetween(given: AnswerShape, wanted: AnswerShape): boolean {
  if (wanted.kind !== "between")
    return (
      given.kind === "between" &&
      wanted.kind === "list" &&
      /[[\]]/u.test(wanted.brackets) &&
      sameShape(given.interval, wanted)
    );
  if (given.kind !== "between") return sameShape(given, wanted.interval);
  return sameText(given.name, wanted.name) && sameShape(given.interval, wanted.interval);
}

type Relation = AnswerShape & { readonly kind: "relation" };

function sameRelation(given: AnswerShape, wanted: AnswerShape): boolean {
  if (given.kind !== "relation") return wanted.kind === "relation" && solves(wanted, given);
  if (wanted.kind !== "relation") return solves(given, wanted);
  return sameSides(given, wanted) || sameSides(given, turned(wanted)) || sameEquation(given, wanted);
}

/** What names what it solves for: "x = 5" is 5. */
function solves({ operator, left, right }: Relation, other: AnswerShape): boolean {
  return operator === "=" && isName(left) && sameShape(parseShape(right), other);
}

/** "x", "x_{1}", "f(x)", "|AB|", "(p, q)", "S_{1}:S": what a result is called, and no formula to solve. */
function isName(text: string): boolean {
  const name = String.raw`\|?(?:[A-Za-zα-ω]|[A-Z]{2,4})'?(?:_\{?\w{1,4}\}?)?(?:\([a-z]\))?\|?`;
  return new RegExp(`^(?:${name}(?::${name})?|\\(${name}(?:, ?${name})+\\))$`, "u").test(text);
}

function sameSides(a: Relation, b: Relation): boolean {
  return a.operator === b.operator && sameElement(a.left, b.left) && sameElement(a.right, b.right);
}

const TURNED: Readonly<Record<string, string>> = { "<": ">", ">": "<", "≤": "≥", "≥": "≤" };

/** 3 < x is x > 3. */
function turned({ operator, left, right }: Relation): Relation {
  return { kind: "relation", operator: TURNED[operator] ?? operator, left: right, right: left };
}

/** y - 2x = 1 is y = 2x + 1: the differences of the sides agree, up to sign. */
function sameEquation(given: Relation, wanted: Relation): boolean {
  if (given.operator !== "=" || wanted.operator !== "=") return false;
  const difference = ({ left, right }: Relation): string => `(${left})-(${right})`;
  return [wanted, turned(wanted)].some((equation) => sameFormula(difference(given), difference(equation)));
}

/** One number, formula or word. Units must agree where both sides name one that is known. */
function sameElement(givenText: string, wantedText: string): boolean {
  if (sameText(givenText, wantedText)) return true;
  if (isWord(givenText) || isWord(wantedText)) return false;
  const given = splitUnit(givenText);
  const wanted = splitUnit(wantedText);
  if (given.unit !== "" && wanted.unit !== "" && given.unit !== wanted.unit) return false;
  if (given.percent === wanted.percent)
    return sameFormula(given.text, wanted.text) || sameFormula(givenText, wantedText);
  const [percent, bare] = given.percent ? [given.text, wanted.text] : [wanted.text, given.text];
  return sameFormula(`(${percent})/100`, bare) || (isLarge(percent) && sameFormula(percent, bare));
}

/** "on" is a word, no product: otherwise it would be "no". "2024-01-02" is a date, no difference. */
function isWord(text: string): boolean {
  return (
    /^[A-Za-z\s]{2,}$/u.test(text) || /^(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4})$/u.test(text)
  );
}

/** "10" may stand for "10%", but "0.5" not for "0.5%": that is half of one. */
function isLarge(percent: string): boolean {
  return /^-?[1-9]/u.test(percent);
}
