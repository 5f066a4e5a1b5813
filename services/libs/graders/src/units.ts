// SPDX-License-Identifier: Apache-2.0

/** A quantity: the number's text, and what it counts. */
export interface Quantity {
  readonly text: string;
  /** Normalised name of a known unit; "" where there is none, or only a noun ("apples"). */
  readonly unit: string;
  readonly percent: boolean;
}

/** Names of one unit, the first is its own. */
const SYNONYMS: readonly (readonly string[])[] = [
  ["dollar", "$", "usd", "buck"],
  ["cent", "¢"],
  ["euro", "€", "eur"],
  ["pound sterling", "£", "gbp"],
  ["mm", "millimeter", "millimetre"],
  ["cm", "centimeter", "centimetre"],
  ["m", "meter", "metre"],
  ["km", "kilometer", "kilometre"],
  ["inch", "in", "inche"],
  ["foot", "ft", "feet"],
  ["yard", "yd"],
  ["mile", "mi"],
  ["mg", "milligram"],
  ["g", "gram"],
  ["kg", "kilogram"],
  ["lb", "pound"],
  ["oz", "ounce"],
  ["ml", "milliliter", "millilitre"],
  ["l", "liter", "litre"],
  ["second", "s", "sec"],
  ["minute", "min"],
  ["hour", "h", "hr"],
  ["day"],
  ["week"],
  ["month"],
  ["year", "yr"],
  ["degree", "°", "deg"],
  ["radian", "rad"],
  ["mph", "mile per hour"],
  ["km/h", "kph", "kmh", "kilometer per hour"],
];

const UNIT_OF = new Map(SYNONYMS.flatMap((names) => names.map((name) => [name, names[0] as string] as const)));
const SCALES: Readonly<Record<string, string>> = {
  thousand: "*10^3",
  million: "*10^6",
  billion: "*10^9",
  trillion: "*10^12",
};

/** Words after a number: at most three, of two letters or more, so that "5 x" stays a product and "5 or 6" a list. */
const NOUNS = /^(.*[\d)}|!])\s+((?!or\b|and\b)[A-Za-z]{2,}\.?(?:\s+(?!or\b|and\b)[A-Za-z]{2,}){0,2})$/u;
/** A unit in a LaTeX text box, or directly behind the number. */
const BOXED = /^(.*[\d)}|!])\s*\\(?:text|mathrm|mbox|textrm|rm)\s*\{\s*([^{}\d]*)\}\s*(?:\^\s*\{?\s*([23])\s*\}?)?$/u;
const POWERED = /^(.*[\d)}|!])\s*((?:square|cubic|sq)?\s*[A-Za-z/°]{1,12})\s*\^\s*\{?\s*([23])\s*\}?$/u;
const ATTACHED = /^(.*\d)([A-Za-z]{2,5}(?:\/h)?)$/u;

/** Takes the unit off a number: "$5", "7\text{ cm}", "12 apples", "10%", "30°", "3 million". Text without digits stays. */
export function splitUnit(text: string): Quantity {
  const plain = { text, unit: "", percent: false };
  if (!/\d/u.test(text)) return plain;
  const currency = /^(-?)\s*([$€£])\s*(.+)$/u.exec(text);
  if (currency !== null) {
    const [, sign = "", mark = "", rest = ""] = currency;
    return { ...splitUnit(`${sign}${rest}`), unit: known(mark) ?? "" };
  }
  const symbol = /^(.*?)\s*([%°$€£¢])$/u.exec(text);
  if (symbol !== null) return ofSymbol(symbol[1] as string, symbol[2] as string);
  return splitWords(text) ?? plain;
}

function ofSymbol(text: string, symbol: string): Quantity {
  return symbol === "%" ? { text, unit: "", percent: true } : { text, unit: known(symbol) ?? "", percent: false };
}

function splitWords(text: string): Quantity | undefined {
  const boxed = BOXED.exec(text) ?? POWERED.exec(text);
  if (boxed !== null) return named(boxed[1] as string, boxed[2] as string, boxed[3], POWERED.test(text));
  const attached = ATTACHED.exec(text);
  if (attached !== null) return named(attached[1] as string, attached[2] as string, undefined, true);
  const nouns = NOUNS.exec(text);
  return nouns === null ? undefined : named(nouns[1] as string, nouns[2] as string, undefined, false);
}

/** @param onlyKnown  letters that may as well be variables count only if they name a unit. */
function named(text: string, words: string, exponent: string | undefined, onlyKnown: boolean): Quantity | undefined {
  const word = words.trim().toLowerCase().replace(/\.$/u, "");
  if (word === "percent" || word === "percents") return { text, unit: "", percent: true };
  const scale = SCALES[word.split(" ")[0] ?? ""];
  if (scale !== undefined) return { text: `(${text})${scale}`, unit: "", percent: false };
  const unit = known(word);
  if (unit === undefined) return onlyKnown ? undefined : { text, unit: "", percent: false };
  return { text, unit: exponent === undefined ? unit : `${unit}^${exponent}`, percent: false };
}

function known(word: string): string | undefined {
  const dimension = /^(square|sq|cubic)\.? (.+)$/u.exec(word);
  if (dimension !== null) {
    const base = known(dimension[2] as string);
    return base === undefined ? undefined : `${base}^${dimension[1] === "cubic" ? 3 : 2}`;
  }
  return UNIT_OF.get(word) ?? UNIT_OF.get(word.replace(/s\b/gu, ""));
}
