// SPDX-License-Identifier: Apache-2.0
import { sleep } from "@whetstone/core";
import { type ActionDefinition, ActionError } from "./action.ts";
import { integer, number, text } from "./parameters.ts";

const MAX_WAIT_MS = 10_000;
/** A page that is slower is looked at as far as it has come. */
const LOAD_MS = 15_000;
const LOADED = { waitUntil: "domcontentloaded", timeout: LOAD_MS } as const;

export const ON_PAGES: readonly ActionDefinition[] = [
  {
    name: "noop",
    subset: undefined,
    description: "Do nothing, and optionally wait for the given time (in milliseconds).",
    examples: ["noop()", "noop(500)"],
    parameters: [number("wait_ms", 1000)],
    perform: ({ wait_ms: ms }, { signal }) => sleep(Math.min(Math.max(0, Number(ms)), MAX_WAIT_MS), signal),
  },
  {
    name: "send_msg_to_user",
    subset: "chat",
    description: "Sends a message to the user.",
    examples: ['send_msg_to_user("Based on the results of my search, the city was built in 1751.")'],
    parameters: [text("text")],
    perform: async ({ text: said }, { say }) => say(said as string),
  },
  {
    name: "report_infeasible",
    subset: "infeas",
    description: "Notifies the user that their instructions are infeasible.",
    examples: ['report_infeasible("I cannot follow these instructions because there is no email field in this form.")'],
    parameters: [text("reason")],
    perform: async ({ reason }, { giveUp }) => giveUp(reason as string),
  },
  {
    name: "goto",
    subset: "nav",
    description: "Navigate to a url.",
    examples: ["goto('http://www.example.com')"],
    parameters: [text("url")],
    perform: async ({ url }, { tabs, checkAddress }) => {
      checkAddress(url as string);
      await tabs.active.goto(url as string, LOADED);
    },
  },
  {
    name: "go_back",
    subset: "nav",
    description: "Navigate to the previous page in history.",
    examples: ["go_back()"],
    parameters: [],
    perform: (_, { tabs }) => tabs.active.goBack(LOADED),
  },
  {
    name: "go_forward",
    subset: "nav",
    description: "Navigate to the next page in history.",
    examples: ["go_forward()"],
    parameters: [],
    perform: (_, { tabs }) => tabs.active.goForward(LOADED),
  },
  {
    name: "new_tab",
    subset: "tab",
    description: "Open a new tab. It will become the active one.",
    examples: ["new_tab()"],
    parameters: [],
    perform: (_, { tabs }) => tabs.open(),
  },
  {
    name: "tab_close",
    subset: "tab",
    description: "Close the current tab.",
    examples: ["tab_close()"],
    parameters: [],
    perform: async (_, { tabs }) => {
      await tabs.active.close();
      // BrowserGym goes to the tab that was opened last.
      const last = tabs.all.at(-1);
      if (last !== undefined) tabs.focus(last);
      await tabs.ensureOne();
    },
  },
  {
    name: "tab_focus",
    subset: "tab",
    description: "Bring tab to front (activate tab).",
    examples: ["tab_focus(2)"],
    parameters: [integer("index")],
    perform: async ({ index }, { tabs }) => {
      const page = tabs.all.at(Number(index));
      if (page === undefined) throw new ActionError("Error", `there is no tab ${Number(index)}`);
      await page.bringToFront();
      tabs.focus(page);
    },
  },
];
