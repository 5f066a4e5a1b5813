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
  return sameText(given, wanted) || sameShape(parseShape(given), parseShape(wanted));
}

/** Case, spaces (but for those between digits) and grouping do not matter. */
function sameText(a: string, b: string): boolean {
  return textKey(a) === textKey(b);
}

function textKey(text: string): string {
  return text
    .replace(/\\(?:text|mathrm|mbox|textbf)\s*/gu, "")
    .replace(/[{}]|(?<!\d)\s|\s(?!\d)/gu, "")
    .toLowerCase();
}

function sameShape(given: AnswerShape, wanted: AnswerShape): boolean {
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

/** One side may name what it solves for: "x = 5" is 5. Two relations must say the same, read from either side. */
function sameRelation(given: AnswerShape, wanted: AnswerShape): boolean {
  if (given.kind !== "relation" || wanted.kind !== "relation") {
    const [relation, other] = given.kind === "relation" ? [given, wanted] : [wanted, given];
    const names =
      relation.kind === "relation" && relation.operator === "=" && /^[A-Za-zα-ω](\([a-z]\))?$/u.test(relation.left);
    return names && sameShape(parseShape(relation.right), other);
  }
  const { operator, left, right } = given;
  const straight = operator === wanted.operator && sameElement(left, wanted.left) && sameElement(right, wanted.right);
  const turned =
    FLIPPED[operator] === wanted.operator && sameElement(left, wanted.right) && sameElement(right, wanted.left);
  return straight || turned || (operator === "=" && wanted.operator === "=" && sameEquation(given, wanted));
}

interface Sides {
  readonly left: string;
  readonly right: string;
}

function sameEquation(given: Sides, wanted: Sides): boolean {
  const difference = ({ left, right }: Sides): string => `(${left})-(${right})`;
  const turned = `(${wanted.right})-(${wanted.left})`;
  return sameFormula(difference(given), difference(wanted)) || sameFormula(difference(given), turned);
}

const FLIPPED: Readonly<Record<string, string>> = { "=": "=", "≠": "≠", "<": ">", ">": "<", "≤": "≥", "≥": "≤" };

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

/** "on" is a word, no product: otherwise it would be "no". */
function isWord(text: string): boolean {
  return /^[A-Za-z\s]{2,}$/u.test(text);
}

/** "10" may stand for "10%", but "0.5" not for "0.5%": that is half of one. */
function isLarge(percent: string): boolean {
  return /^-?[1-9]/u.test(percent);
}
