// SPDX-License-Identifier: Apache-2.0
import { asked, click, fill, indexOf, type Oracle, press, select } from "./oracle.ts";
import type { PageTree } from "./page-tree.ts";

const submit = (page: PageTree): string => click(page.one("button", /^(submit|login|ok|search)$/iu));

/** Fills the fields in order with what the page says, then submits. */
function filling(answers: (page: PageTree) => readonly string[]): Oracle {
  return function* (page) {
    for (const [i, answer] of answers(page).entries()) page = yield fill(page.one("textbox", undefined, i), answer);
    yield submit(page);
  };
}

const intoField = (index: number, answer: (page: PageTree) => string): Oracle =>
  function* (page) {
    page = yield fill(page.one("textbox", undefined, index), answer(page));
    yield submit(page);
  };

const login = filling((page) => [page.quoted(0), page.quoted(1)]);

/** In between it asks whether to leave: who stays begins again with the field. */
const loginDespitePopup: Oracle = function* (page) {
  for (const [i, answer] of [page.quoted(0), page.quoted(1)].entries()) {
    page = yield fill(page.one("textbox", undefined, i), answer);
    for (let tries = 0; tries < 3 && page.has("button", "Cancel"); tries += 1) {
      page = yield click(page.one("button", "Cancel"));
      page = yield fill(page.one("textbox", undefined, i), answer);
    }
  }
  yield submit(page);
};

const cell = (page: PageTree, label: string): string => {
  const cells = page.all("cell");
  return cells[cells.findIndex(({ name }) => name === label) + 1]?.name ?? "";
};

const solve = (text: string): number => {
  const [, left = "", operator = "", right = ""] = /^(\S+) ([-+x*/]) (\S+) =/u.exec(text) ?? [];
  const [a, b] = [Number(left), Number(right)];
  return operator === "+" ? a + b : operator === "-" ? a - b : operator === "/" ? a / b : a * b;
};

/** "x - 3 = 62", "4 + x = 9": the unknown is on either side. */
const unknown = (text: string): number => {
  const [, left = "", operator = "", right = "", result = ""] = /^(\S+) ([-+]) (\S+) = (\S+)/u.exec(text) ?? [];
  const r = Number(result);
  if (left === "x") return operator === "+" ? r - Number(right) : r + Number(right);
  return operator === "+" ? r - Number(left) : Number(left) - r;
};

const movie: Oracle = function* (page) {
  const [genre = "", director = "", year = ""] = asked(page, /for (.*) movies directed by (.*) from year (\d+)/u);
  const answers: readonly (readonly [RegExp, string])[] = [
    [/director/iu, director],
    [/year/iu, year],
    [/genre/iu, genre],
  ];
  const labels = page.nodes.flatMap(({ role, name }) =>
    role === "LabelText" ? [] : answers.filter(([label]) => label.test(name) && name.length < 20),
  );
  for (const [i, [, answer]] of labels.entries()) page = yield fill(page.one("textbox", undefined, i), answer);
  yield click(page.nodes.find(({ name }) => /^(submit|search)$/iu.test(name)) ?? page.one("button"));
};

const guess: Oracle = function* (page) {
  let [low, high] = [0, 9];
  while (low <= high) {
    const number = Math.floor((low + high) / 2);
    page = yield fill(page.one("spinbutton"), String(number));
    page = yield click(page.one("button", "Submit"));
    if (page.all("StaticText", /higher/u).length > 0) low = number + 1;
    else high = number - 1;
  }
};

const generate: Oracle = function* (page) {
  const [kind = ""] = asked(page, /Generate an? (.*), then/u);
  const [, limit = "0"] = /(-?\d+)/u.exec(kind) ?? [];
  const fits = (n: number): boolean =>
    kind.startsWith("even")
      ? n % 2 === 0
      : kind.startsWith("odd")
        ? n % 2 !== 0
        : kind.includes("less")
          ? n < Number(limit)
          : n > Number(limit);
  for (let tries = 0; tries < 30; tries += 1) {
    page = yield click(page.one("button", "Generate"));
    const shown = page.all("StaticText", /^-?\d+$/u)[0];
    if (shown !== undefined && fits(Number(shown.name))) break;
  }
  yield submit(page);
};

const complete: Oracle = function* (page) {
  const [start = ""] = asked(page, /starts with "([^"]*)"/u);
  const end = / ends with "([^"]*)"/u.exec(page.goal)?.[1] ?? "";
  const field = page.one("textbox");
  page = yield `fill('${field.bid}', ${JSON.stringify(start)}, True)`;
  const fits = (node: { name: string }): boolean =>
    node.name.startsWith(start) && node.name.endsWith(end) && node.name.length > start.length;
  const offers = () =>
    page.nodes.filter((node) => ["StaticText", "option", "menuitem", "listitem"].includes(node.role) && fits(node));
  for (let tries = 0; tries < 6 && offers().length === 0; tries += 1) page = yield "noop(500)";
  const item = offers()[0];
  if (item !== undefined) page = yield click(item);
  yield submit(page);
};

const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];

const pickDate: Oracle = function* (page) {
  const [month = "", day = "", year = ""] = asked(page, /(\d\d)\/(\d\d)\/(\d{4})/u);
  page = yield click(page.one("textbox"));
  for (let tries = 0; tries < 30; tries += 1) {
    const shown = MONTHS.findIndex((name) => page.has("StaticText", name));
    if (shown < 0) page = yield "noop(300)";
    else if (shown + 1 === Number(month)) break;
    else page = yield click(nodeNamed(page, shown + 1 > Number(month) ? /^Prev/u : /^Next/u));
  }
  page = yield click(page.one("link", String(Number(day))));
  if (year === "") throw new Error("no year");
  yield submit(page);
};

function nodeNamed(page: PageTree, name: RegExp) {
  const found = page.nodes.find((node) => name.test(node.name));
  if (found === undefined) throw new Error(`nothing is named ${String(name)}`);
  return found;
}

const enterDate: Oracle = function* (page) {
  const [month = "", day = "", year = ""] = asked(page, /(\d\d)\/(\d\d)\/(\d{4})/u);
  page = yield fill(page.one("Date"), `${year}-${month}-${day}`);
  yield submit(page);
};

const enterTime: Oracle = function* (page) {
  const [hour = "", minute = "", half = ""] = asked(page, /(\d+):(\d\d) ([AP]M)/u);
  const hours = (Number(hour) % 12) + (half === "PM" ? 12 : 0);
  page = yield fill(page.one("InputTime"), `${String(hours).padStart(2, "0")}:${minute}`);
  yield submit(page);
};

const spinner: Oracle = function* (page) {
  page = yield fill(page.one("spinbutton"), asked(page, /Select (-?\d+)/u)[0] ?? "");
  page = yield press(page.one("spinbutton"), "Tab");
  yield submit(page);
};

const form2: Oracle = function* (page) {
  const [which = "", kind = "", number = "", field = ""] = asked(
    page,
    /Check the (\w+) (radio button|checkbox) and enter the number "(-?\d+)" into the (\w+) textbox/u,
  );
  page = yield click(page.one(kind === "checkbox" ? "checkbox" : "radio", undefined, indexOf(which)));
  page = yield fill(page.one("textbox", undefined, indexOf(field)), number);
  yield submit(page);
};

const form3: Oracle = function* (page) {
  const [choice = "", button = ""] = asked(
    page,
    /Choose (.*) from the dropdown, then click the button labeled "(.*)"/u,
  );
  page = yield select(page.one("combobox"), [choice]);
  yield click(page.one("button", button));
};

export const TEXTS: Readonly<Record<string, Oracle>> = {
  "enter-text": filling((page) => [page.quoted()]),
  "enter-text-2": filling((page) => {
    const word = page.quoted();
    return [page.goal.includes("upper case") ? word.toUpperCase() : word.toLowerCase()];
  }),
  "enter-text-dynamic": filling((page) => [page.quoted()]),
  "enter-password": filling((page) => [page.quoted(), page.quoted()]),
  "login-user": login,
  "login-user-popup": loginDespitePopup,
  "copy-paste": function* (page) {
    const boxes = page.all("textbox");
    const source = boxes.find(({ value }) => value !== undefined) ?? page.one("textbox");
    page = yield fill(boxes.find((box) => box !== source) ?? source, source.value ?? "");
    yield submit(page);
  },
  "copy-paste-2": intoField(
    3,
    (page) => page.one("textbox", undefined, indexOf(asked(page, /the (\w+) text area/u)[0] ?? "")).value ?? "",
  ),
  "find-word": intoField(0, (page) => {
    const words = page
      .all("StaticText")
      .map(({ name }) => name)
      .join(" ")
      .split(/\s+/u);
    return (words[indexOf(asked(page, /the (\w+) word/u)[0] ?? "")] ?? "").replaceAll(/[.,]/gu, "");
  }),
  "read-table": intoField(0, (page) => cell(page, asked(page, /value of (.*) into/u)[0] ?? "")),
  "read-table-2": filling((page) =>
    page.all("StaticText", /:$/u).map(({ name }) => cell(page, name.replace(/:$/u, ""))),
  ),
  "scroll-text": intoField(
    1,
    (page) => (page.one("textbox").value ?? "").trim().split(/\s+/u).at(-1)?.replace(/[.,]$/u, "") ?? "",
  ),
  "simple-algebra": filling((page) => [String(unknown(page.one("StaticText").name))]),
  "simple-arithmetic": filling((page) => [String(solve(page.one("StaticText").name))]),
  "text-transform": filling((page) => [
    page
      .all("StaticText")
      .map(({ name }) => name)
      .join(""),
  ]),
  "multi-layouts": movie,
  "multi-orderings": movie,
  "guess-number": guess,
  "generate-number": generate,
  "use-autocomplete": complete,
  "use-autocomplete-nodelay": complete,
  "choose-date": pickDate,
  "choose-date-easy": pickDate,
  "choose-date-medium": pickDate,
  "choose-date-nodelay": pickDate,
  "enter-date": enterDate,
  "enter-time": enterTime,
  "use-spinner": spinner,
  "form-sequence-2": form2,
  "form-sequence-3": form3,
};
