// SPDX-License-Identifier: Apache-2.0
import { asked, click, fill, indexOf, listed, type Oracle, press, select } from "./oracle.ts";
import { above, type PageTree } from "./page-tree.ts";

const clickQuoted: Oracle = function* (page) {
  yield click(page.one("button", page.quoted()));
};

/** One may lie on the other: then it is reached by the keyboard. */
const clickNamed: Oracle = function* (page) {
  const [name] = asked(page, /button (\w+)\.$/u);
  page = yield click(page.one("button", name));
  yield press(page.one("button", name), "Enter");
};

const submit = (page: PageTree): string => click(page.one("button", /^submit$/iu));

const checkAll: Oracle = function* (page) {
  const words = listed(asked(page, /Select (.*) and click Submit/u)[0] ?? "").filter((word) => word !== "nothing");
  for (const word of words) page = yield click(page.one("checkbox", word));
  yield submit(page);
};

/** Of the page's own lists (click-checkboxes-soft.html): words of one row are similar. */
const SIMILAR = [
  ["big", "large", "huge", "enormous", "gigantic"],
  ["small", "tiny", "little", "mini", "petite"],
  ["red", "scarlet", "crimson", "vermillion"],
  ["happy", "cheerful", "joyful", "gleeful", "delighted"],
  ["sad", "unhappy", "sorrowful", "miserable", "tragic"],
  ["angry", "mad", "furious", "irritated"],
  ["evil", "wicked", "immoral", "sinful", "corrupt", "depraved"],
  ["wrong", "incorrect", "mistaken", "erroneous"],
  ["real", "genuine", "actual"],
  ["strange", "odd", "peculiar", "unusual", "weird"],
  ["stop", "cease", "halt", "end", "finish"],
  ["scared", "afraid", "panicked", "fearful", "frightened", "terrified"],
  ["quiet", "calm", "serene", "peaceful"],
  ["old", "aged", "archaic"],
  ["love", "like", "adore", "favor"],
  ["kill", "murder", "assassinate"],
  ["keep", "retain", "preserve", "sustain", "maintain"],
  ["hide", "conceal", "camouflage"],
  ["funny", "amusing", "hilarious", "comical"],
  ["fast", "quick", "rapid", "swift"],
  ["expensive", "costly", "pricy"],
  ["dislike", "hate", "detest", "loathe"],
  ["delicious", "savory", "delectable", "appetizing"],
  ["cool", "cold", "chilly", "frosty"],
  ["begin", "start", "initiate", "launch"],
];

function isSimilar(one: string, other: string): boolean {
  return one === other || SIMILAR.some((row) => row.includes(one) && row.includes(other));
}

const checkSimilar: Oracle = function* (page) {
  const words = listed(asked(page, /similar to (.*) and click Submit/u)[0] ?? "");
  const boxes = page.all("checkbox").filter(({ name }) => words.some((word) => isSimilar(word, name)));
  for (const box of boxes) page = yield click(box);
  yield submit(page);
};

const ROLES: Readonly<Record<string, string>> = { checkbox: "checkbox", radio: "radio", button: "button" };

const widget: Oracle = function* (page) {
  const kind = page.quoted();
  const role = ROLES[kind] ?? "textbox";
  const found = page.all(role);
  // A text area is a text box whose text may have several lines; its text is long.
  const wanted =
    kind === "textarea" ? found.filter(isTextArea) : kind === "text" ? found.filter((n) => !isTextArea(n)) : found;
  yield click(wanted[0] ?? page.one(role));
};

function isTextArea({ children }: PageTree["nodes"][number]): boolean {
  return children.length > 0 && !children.some(({ role }) => role === "generic");
}

const tabByName: Oracle = function* (page) {
  yield click(page.one("link", asked(page, /Click on (Tab #\d)/u)[0]));
};

/** The link is a text within the panel of one of the tabs. */
const linkBehindTabs: Oracle = function* (page) {
  const word = page.quoted();
  for (const { name } of page.all("tab")) {
    page = yield click(page.one("link", name));
    if (linkTexts(page).includes(word)) break;
  }
  yield click(page.one("StaticText", word));
};

/** Single words that stand in an element of their own. */
function linkTexts(page: PageTree): string[] {
  return page
    .all("StaticText")
    .filter(({ parent }) => parent?.role === "generic")
    .map(({ name }) => name);
}

const expandAndSubmit: Oracle = function* (page) {
  page = yield click(page.one("tab", /^Section/u));
  yield submit(page);
};

const linkBehindSections: Oracle = function* (page) {
  const word = page.quoted();
  for (let i = 0; i < page.all("tab").length; i += 1) {
    if (linkTexts(page).includes(word)) break;
    const tab = page.one("tab", undefined, i);
    if (tab.attributes.includes("expanded=False")) page = yield click(tab);
    if (!linkTexts(page).includes(word)) page = yield "noop(500)";
  }
  yield click(page.one("StaticText", word));
};

const link: Oracle = function* (page) {
  yield click(page.one("StaticText", page.quoted()));
};

const menuPath: Oracle = function* (page) {
  const path = (asked(page, /Select (.*)$/u)[0] ?? "").split(">").map((name) => name.trim());
  for (const [i, name] of path.entries()) {
    const item = page.one("menuitem", name);
    page = yield i === path.length - 1 ? click(item) : `hover('${item.bid}')`;
    for (let tries = 0; tries < 5 && i + 1 < path.length && !page.has("menuitem", path[i + 1]); tries += 1)
      page = yield "noop(300)";
  }
};

const option: Oracle = function* (page) {
  page = yield click(page.one("radio", asked(page, /Select (.*) and click Submit/u)[0]));
  yield submit(page);
};

const scrollList: Oracle = function* (page) {
  // Names of countries have commas and "and" of their own.
  const list = `, ${(asked(page, /Select (.*) from the scroll list/u)[0] ?? "").replaceAll(" and ", ", ")}, `;
  const isAsked = (name: string): boolean => list.includes(`, ${name.replaceAll(" and ", ", ")}, `);
  const names = page.all("option").map(({ name }) => name);
  page = yield select(page.one("listbox"), names.filter(isAsked));
  yield submit(page);
};

const dropDown: Oracle = function* (page) {
  page = yield select(page.one("combobox"), asked(page, /Select (.*) from the list/u));
  yield submit(page);
};

const sequence: Oracle = function* (page) {
  for (const name of ["ONE", "TWO"]) page = yield press(page.one("button", name), "Enter");
};

const greatest: Oracle = function* (page) {
  const cards = page.all("StaticText", /^-?\d+$/u).sort((a, b) => Number(b.name) - Number(a.name));
  page = yield click(above(cards[0] ?? page.one("StaticText"), 2));
  yield submit(page);
};

const oddOrEven: Oracle = function* (page) {
  const numbers = page.all("StaticText", /^-?\d+$/u).map(({ name }) => Number(name));
  for (const [i, number] of numbers.entries())
    page = yield click(page.one("button", number % 2 === 0 ? "Even" : "Odd", i));
  yield submit(page);
};

const minutes = (text: string): number => {
  const [, hours = "0", rest = "0"] = /(?:(\d+)h)? ?(?:(\d+)m)?/u.exec(text) ?? [];
  return Number(hours) * 60 + Number(rest);
};

/** "the cheapest", "the longest duration", …: the value of each ticket, and which of them is wanted. */
const ticket: Oracle = function* (page) {
  const [which = "", of = ""] = asked(page, /(longest|shortest|cheapest|most expensive)\s?(duration|price)?/u);
  const books = page.all("button", /^Book for/u);
  const times = page.all("StaticText", /^(\d+h ?)?(\d+m)?$/u).filter(({ name }) => name !== "");
  const byTime = of === "duration" || (which.endsWith("est") && which !== "cheapest");
  const values = books.map(({ name }, i) =>
    byTime ? minutes(times[i]?.name ?? "") : Number(/\$(\d+)/u.exec(name)?.[1]),
  );
  const wanted = which === "longest" || which === "most expensive" ? Math.max(...values) : Math.min(...values);
  yield click(books[values.indexOf(wanted)] ?? page.one("button"));
};

const agreement: Oracle = function* (page) {
  if (/cancel/iu.test(page.goal)) {
    yield click(page.one("button", "Cancel"));
    return;
  }
  page = yield "scroll_at(120, 165, 0, 20000)";
  page = yield fill(page.one("textbox", "Name"), page.quoted());
  yield click(page.one("button", "Agree"));
};

const phoneBook: Oracle = function* (page) {
  const [name = "", field = ""] = asked(page, /Find (\w+) in the contact book and click on their (.*)\.$/u);
  for (let pages = 0; pages < 12 && !page.has("heading", name); pages += 1) page = yield click(page.one("link", ">"));
  const label = page.one("StaticText", new RegExp(`^${field.split(" ")[0] ?? ""}`, "iu"));
  const row = label.parent?.parent;
  const value = row?.children.flatMap((child) => child.children).find(({ role }) => role === "link");
  yield click(value ?? page.one("link"));
};

export const CLICKS: Readonly<Record<string, Oracle>> = {
  "click-test": function* (page) {
    yield click(page.one("button"));
  },
  "click-test-2": clickNamed,
  "click-test-transfer": clickNamed,
  "click-button": clickQuoted,
  "click-button-sequence": sequence,
  "unicode-test": clickQuoted,
  "focus-text": function* (page) {
    yield click(page.one("textbox"));
  },
  "focus-text-2": function* (page) {
    yield click(page.one("textbox", undefined, indexOf(asked(page, /the (\w+) input/u)[0] ?? "")));
  },
  "click-dialog": function* (page) {
    yield click(page.one("button", "Close"));
  },
  "click-dialog-2": function* (page) {
    const name = page.quoted();
    yield click(page.one("button", name === "x" ? "Close" : name));
  },
  "click-link": link,
  "click-option": option,
  "click-checkboxes": checkAll,
  "click-checkboxes-large": checkAll,
  "click-checkboxes-transfer": checkAll,
  "click-checkboxes-soft": checkSimilar,
  "click-widget": widget,
  "click-tab": tabByName,
  "click-tab-2": linkBehindTabs,
  "click-tab-2-easy": linkBehindTabs,
  "click-tab-2-medium": linkBehindTabs,
  "click-tab-2-hard": linkBehindTabs,
  "click-collapsible": expandAndSubmit,
  "click-collapsible-nodelay": expandAndSubmit,
  "click-collapsible-2": linkBehindSections,
  "click-collapsible-2-nodelay": linkBehindSections,
  "click-menu": menuPath,
  "click-scroll-list": scrollList,
  "choose-list": dropDown,
  "find-greatest": greatest,
  "odd-or-even": oddOrEven,
  "buy-ticket": ticket,
  "sign-agreement": agreement,
  "phone-book": phoneBook,
};
