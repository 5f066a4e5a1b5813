// SPDX-License-Identifier: Apache-2.0
import type { Locator } from "playwright-core";
import type { ActionDefinition, ActionScene, Arguments } from "./action.ts";
import { elementOf } from "./elements.ts";
import { button, flag, modifiers, number, text, texts } from "./parameters.ts";

type Click = NonNullable<Parameters<Locator["click"]>[0]>;

/** The literals of Python are Playwright's. */
function clickOptions(args: Arguments, { timeoutMs: timeout }: ActionScene): Click {
  return { button: args["button"] as "left", modifiers: args["modifiers"] as "Alt"[], timeout };
}

const at = (args: Arguments, { tabs }: ActionScene, key = "bid"): Promise<Locator> =>
  elementOf(tabs.active, args[key] as string);

export const ON_ELEMENTS: readonly ActionDefinition[] = [
  {
    name: "scroll",
    subset: "bid",
    description:
      "Scroll horizontally and vertically. Amounts in pixels, positive for right or down scrolling, negative for left or up scrolling. Dispatches a wheel event.",
    examples: ["scroll(0, 200)", "scroll(-50.2, -100.5)"],
    parameters: [number("delta_x"), number("delta_y")],
    perform: ({ delta_x: x, delta_y: y }, { tabs, scale }) =>
      tabs.active.mouse.wheel(Number(x) / scale, Number(y) / scale),
  },
  {
    name: "fill",
    subset: "bid",
    description:
      "Fill out a form field. It focuses the element and triggers an input event with the entered text. It works for <input>, <textarea> and [contenteditable] elements.",
    examples: ["fill('237', 'example value')", "fill('45', \"multi-line\\nexample\")", "fill('b534', 'Montre', True)"],
    parameters: [text("bid"), text("value"), flag("enable_autocomplete_menu")],
    perform: async (args, scene) => {
      const element = await at(args, scene);
      const value = args["value"] as string;
      const options = { timeout: scene.timeoutMs };
      if (args["enable_autocomplete_menu"] !== true) return element.fill(value, options);
      // The last character by the keyboard, so that the page offers what it knows.
      await element.fill(value.slice(0, -1), options);
      return element.pressSequentially(value.slice(-1), options);
    },
  },
  {
    name: "select_option",
    subset: "bid",
    description:
      "Select one or multiple options in a <select> element. You can specify option value or label to select. Multiple options can be selected.",
    examples: ["select_option('c48', 'blue')", "select_option('c48', ['red', 'green', 'blue'])"],
    parameters: [text("bid"), texts("options")],
    perform: async (args, scene) =>
      (await at(args, scene)).selectOption(args["options"] as string[], { timeout: scene.timeoutMs }),
  },
  {
    name: "click",
    subset: "bid",
    description: "Click an element.",
    examples: ["click('a51')", "click('b22', button='right')", "click('48', button='middle', modifiers=['Shift'])"],
    parameters: [text("bid"), button, modifiers],
    perform: async (args, scene) => (await at(args, scene)).click(clickOptions(args, scene)),
  },
  {
    name: "dblclick",
    subset: "bid",
    description: "Double click an element.",
    examples: ["dblclick('12')", "dblclick('ca42', button='right')"],
    parameters: [text("bid"), button, modifiers],
    perform: async (args, scene) => (await at(args, scene)).dblclick(clickOptions(args, scene)),
  },
  {
    name: "hover",
    subset: "bid",
    description: "Hover over an element.",
    examples: ["hover('b8')"],
    parameters: [text("bid")],
    perform: async (args, scene) => (await at(args, scene)).hover({ timeout: scene.timeoutMs }),
  },
  {
    name: "press",
    subset: "bid",
    description:
      "Focus the matching element and press a combination of keys. It accepts the logical key names that are emitted in the keyboardEvent.key property of the keyboard events: Backspace, Tab, Delete, Escape, ArrowDown, End, Enter, Home, PageDown, ArrowRight, F1 - F12, Digit0 - Digit9, KeyA - KeyZ, etc., or a single character. Modifiers: Shift, Control, Alt, Meta, ControlOrMeta.",
    examples: ["press('88', 'Backspace')", "press('a26', 'ControlOrMeta+a')", "press('a61', 'Meta+Shift+t')"],
    parameters: [text("bid"), text("key_comb")],
    perform: async (args, scene) =>
      (await at(args, scene)).press(args["key_comb"] as string, { timeout: scene.timeoutMs }),
  },
  {
    name: "focus",
    subset: "bid",
    description: "Focus the matching element.",
    examples: ["focus('b455')"],
    parameters: [text("bid")],
    perform: async (args, scene) => (await at(args, scene)).focus({ timeout: scene.timeoutMs }),
  },
  {
    name: "clear",
    subset: "bid",
    description: "Clear the input field.",
    examples: ["clear('996')"],
    parameters: [text("bid")],
    perform: async (args, scene) => (await at(args, scene)).clear({ timeout: scene.timeoutMs }),
  },
  {
    name: "drag_and_drop",
    subset: "bid",
    description:
      "Perform a drag & drop. Hover the element that will be dragged. Press left mouse button. Move mouse to the element that will receive the drop. Release left mouse button.",
    examples: ["drag_and_drop('56', '498')"],
    parameters: [text("from_bid"), text("to_bid")],
    perform: async (args, scene) => {
      const { mouse } = scene.tabs.active;
      const options = { timeout: scene.timeoutMs };
      await (await at(args, scene, "from_bid")).hover(options);
      await mouse.down();
      await (await at(args, scene, "to_bid")).hover(options);
      await mouse.up();
    },
  },
];
