// SPDX-License-Identifier: Apache-2.0
import { asked, click, fill, indexOf, type Oracle, press } from "./oracle.ts";
import { above, below, bidOf, type PageTree, textsOf, type TreeNode } from "./page-tree.ts";

/** The row of a sender: its texts, and two pictures, the trash and the star. */
function mailBy(page: PageTree, sender: string): TreeNode {
  return above(page.one("StaticText", sender), 3);
}

const images = (node: TreeNode): TreeNode[] => below(node).filter(({ role }) => role === "image");

function* openMail(page: PageTree, sender: string): Generator<string, PageTree, PageTree> {
  return yield click(page.one("StaticText", sender));
}

function* forward(page: PageTree, sender: string, to: string): Generator<string, void, PageTree> {
  page = yield* openMail(page, sender);
  page = yield click(page.one("StaticText", /^forward/iu));
  page = yield fill(page.one("textbox"), to);
  yield click(sendButton(page));
}

function* reply(page: PageTree, sender: string, text: string): Generator<string, void, PageTree> {
  page = yield* openMail(page, sender);
  page = yield click(page.one("StaticText", /^reply/iu));
  page = yield fill(page.one("textbox"), text);
  yield click(sendButton(page));
}

/** A picture without a name, the last of the bar above the text. */
function sendButton(page: PageTree): TreeNode {
  return page.nodes.find(({ name }) => /^send$/iu.test(name)) ?? page.all("image").at(-1) ?? page.one("button");
}

const star: Oracle = function* (page) {
  const [sender = ""] = asked(page, /email by (\w+)/u);
  yield click(images(mailBy(page, sender)).at(-1) ?? page.one("image"));
};

const trash: Oracle = function* (page) {
  const [sender = ""] = asked(page, /email by (\w+)/u);
  yield click(images(mailBy(page, sender))[0] ?? page.one("image"));
};

const NAME = "([A-Z][a-z]+(?:-[A-Z][a-z]+)?)";
/** How people say who sent it, and who is to get it: of the page's own sentences. */
const SENDERS = [`(?:from|by) ${NAME}`, `${NAME} (?:sent|wants his)`, `${NAME}'s e-?mail`, `(?:Get|Find) ${NAME}`];
const RECEIVERS = [
  `(?:to|To) ${NAME}`,
  `(?:Send|Give|Forward) ${NAME} the`,
  `^${NAME} (?:wants the|is waiting)`,
  `it (?:on )?to ${NAME}`,
];

/** @throws Error where no sentence fits */
function nameIn(goal: string, sentences: readonly string[]): string {
  for (const sentence of sentences) {
    const found = new RegExp(sentence, "u").exec(goal)?.[1];
    if (found !== undefined) return found;
  }
  throw new Error(`no sentence fits "${goal}"`);
}

const forwardInWords: Oracle = function* (page) {
  yield* forward(page, nameIn(page.goal, SENDERS), nameIn(page.goal, RECEIVERS));
};

const mail: Oracle = function* (page) {
  const { goal } = page;
  if (goal.includes("star icon")) yield* star(page);
  else if (goal.includes("trash icon")) yield* trash(page);
  else if (goal.includes("reply")) {
    const [sender = ""] = asked(page, /email by (\w+)/u);
    yield* reply(page, sender, page.quoted());
  } else {
    const [sender = "", to = ""] = asked(page, /email by (\w+) and forward that email to (\w+)/u);
    yield* forward(page, sender, to);
  }
};

const search: Oracle = function* (page) {
  const [which = ""] = asked(page, /click the (\w+) search result/u);
  page = yield fill(page.one("textbox"), page.quoted());
  page = yield click(page.one("button", "Search"));
  const perPage = 3;
  const index = indexOf(which);
  const wanted = String(Math.floor(index / perPage) + 1);
  if (wanted !== "1") page = yield click(page.one("link", wanted));
  const results = page.all("link").filter(({ name }) => !/^(\d+|[<>])$/u.test(name));
  // A long result reaches below the window's end, where a click finds something else.
  yield press(results[index % perPage] ?? page.one("link"), "Enter");
};

const tree: Oracle = function* (page) {
  const name = page.quoted();
  const opened = new Set<string>();
  for (let steps = 0; steps < 30; steps += 1) {
    const found = page.all("StaticText", name)[0];
    if (found !== undefined) {
      yield click(found);
      return;
    }
    const folder = page.all("listitem").find((item) => item.children.length > 1 && !opened.has(bidOf(item)));
    if (folder === undefined) throw new Error("all folders are open");
    opened.add(bidOf(folder));
    const label = folder.children.find((child) => textsOf(child).length > 0) ?? folder;
    page = yield click(label);
  }
};

/** Posts of a user: each has a row of pictures, one for each action. */
const posts = (page: PageTree, user: string): TreeNode[] => page.all("StaticText", user).map((name) => above(name, 3));

const ICONS: Readonly<Record<string, number>> = { Reply: 0, Retweet: 1, Like: 2, Share: 3 };

const socialMany: Oracle = function* (page) {
  const [count = "", user = ""] = asked(page, /on (all|\d+) posts? by (@\w+)/u);
  const icon = ICONS[page.quoted()] ?? 0;
  const all = posts(page, user);
  for (const post of count === "all" ? all : all.slice(0, Number(count)))
    page = yield click(images(post)[icon] ?? page.one("image"));
  yield click(page.one("button", "Submit"));
};

export const SITES: Readonly<Record<string, Oracle>> = {
  "email-inbox": mail,
  "email-inbox-delete": mail,
  "email-inbox-forward": mail,
  "email-inbox-forward-nl": forwardInWords,
  "email-inbox-forward-nl-turk": forwardInWords,
  "email-inbox-important": mail,
  "email-inbox-noscroll": mail,
  "email-inbox-reply": mail,
  "email-inbox-star-reply": mail,
  "search-engine": search,
  "navigate-tree": tree,
  "social-media-all": socialMany,
  "social-media-some": socialMany,
};
