// SPDX-License-Identifier: Apache-2.0
import type { ActionDefinition, ActionScene, Arguments } from "./action.ts";
import { button, number, text } from "./parameters.ts";

type Button = "left" | "middle" | "right";

/** Coordinates of the picture, as coordinates of the page. */
function point(args: Arguments, { scale }: ActionScene, x = "x", y = "y"): readonly [number, number] {
  return [Number(args[x]) / scale, Number(args[y]) / scale];
}

const X = number("x");
const Y = number("y");

export const ON_POINTS: readonly ActionDefinition[] = [
  {
    name: "scroll_at",
    subset: "coord",
    description:
      "Scroll horizontally and vertically at a location. Amounts in pixels, positive for right or down scrolling, negative for left or up scrolling.",
    examples: ["scroll_at(50, 100, -50, -100)"],
    parameters: [X, Y, number("dx"), number("dy")],
    perform: async (args, scene) => {
      await scene.tabs.active.mouse.move(...point(args, scene));
      await scene.tabs.active.mouse.wheel(...point(args, scene, "dx", "dy"));
    },
  },
  {
    name: "mouse_move",
    subset: "coord",
    description:
      "Move the mouse to a location. Uses absolute client coordinates in pixels. Dispatches a mousemove event.",
    examples: ["mouse_move(65.2, 158.5)"],
    parameters: [X, Y],
    perform: (args, scene) => scene.tabs.active.mouse.move(...point(args, scene)),
  },
  {
    name: "mouse_up",
    subset: "coord",
    description: "Move the mouse to a location then release a mouse button. Dispatches mousemove and mouseup events.",
    examples: ["mouse_up(250, 120)", "mouse_up(47, 252, 'right')"],
    parameters: [X, Y, button],
    perform: async (args, scene) => {
      await scene.tabs.active.mouse.move(...point(args, scene));
      await scene.tabs.active.mouse.up({ button: args["button"] as Button });
    },
  },
  {
    name: "mouse_down",
    subset: "coord",
    description:
      "Move the mouse to a location then press and hold a mouse button. Dispatches mousemove and mousedown events.",
    examples: ["mouse_down(140.2, 580.1)", "mouse_down(458, 254.5, 'middle')"],
    parameters: [X, Y, button],
    perform: async (args, scene) => {
      await scene.tabs.active.mouse.move(...point(args, scene));
      await scene.tabs.active.mouse.down({ button: args["button"] as Button });
    },
  },
  {
    name: "mouse_click",
    subset: "coord",
    description:
      "Move the mouse to a location and click a mouse button. Dispatches mousemove, mousedown and mouseup events.",
    examples: ["mouse_click(887.2, 68)", "mouse_click(56, 712.56, 'right')"],
    parameters: [X, Y, button],
    perform: (args, scene) =>
      scene.tabs.active.mouse.click(...point(args, scene), { button: args["button"] as Button }),
  },
  {
    name: "mouse_dblclick",
    subset: "coord",
    description:
      "Move the mouse to a location and double click a mouse button. Dispatches mousemove, mousedown and mouseup events.",
    examples: ["mouse_dblclick(5, 236)", "mouse_dblclick(87.5, 354, 'right')"],
    parameters: [X, Y, button],
    perform: (args, scene) =>
      scene.tabs.active.mouse.dblclick(...point(args, scene), { button: args["button"] as Button }),
  },
  {
    name: "mouse_drag_and_drop",
    subset: "coord",
    description:
      "Drag and drop from a location to a location. Uses absolute client coordinates in pixels. Dispatches mousemove, mousedown and mouseup events.",
    examples: ["mouse_drag_and_drop(10.7, 325, 235.6, 24.54)"],
    parameters: [number("from_x"), number("from_y"), number("to_x"), number("to_y")],
    perform: async (args, scene) => {
      const { mouse } = scene.tabs.active;
      await mouse.move(...point(args, scene, "from_x", "from_y"));
      await mouse.down();
      await mouse.move(...point(args, scene, "to_x", "to_y"));
      await mouse.up();
    },
  },
  {
    name: "keyboard_down",
    subset: "coord",
    description: "Press and hold a keyboard key. Dispatches a keydown event. Names of keys are those of press.",
    examples: ["keyboard_down('Shift')", "keyboard_down('c')"],
    parameters: [text("key")],
    perform: ({ key }, { tabs }) => tabs.active.keyboard.down(key as string),
  },
  {
    name: "keyboard_up",
    subset: "coord",
    description: "Release a keyboard key. Dispatches a keyup event. Names of keys are those of press.",
    examples: ["keyboard_up('Shift')", "keyboard_up('c')"],
    parameters: [text("key")],
    perform: ({ key }, { tabs }) => tabs.active.keyboard.up(key as string),
  },
  {
    name: "keyboard_press",
    subset: "coord",
    description: "Press a combination of keys. Names of keys are those of press.",
    examples: ["keyboard_press('Backspace')", "keyboard_press('ControlOrMeta+a')", "keyboard_press('Meta+Shift+t')"],
    parameters: [text("key")],
    perform: ({ key }, { tabs }) => tabs.active.keyboard.press(key as string),
  },
  {
    name: "keyboard_type",
    subset: "coord",
    description:
      "Types a string of text through the keyboard. Sends a keydown, keypress/input, and keyup event for each character in the text. Modifier keys DO NOT affect keyboard_type.",
    examples: ["keyboard_type('Hello world!')"],
    parameters: [text("text")],
    perform: ({ text: typed }, { tabs }) => tabs.active.keyboard.type(typed as string),
  },
  {
    name: "keyboard_insert_text",
    subset: "coord",
    description:
      "Insert a string of text in the currently focused element. Dispatches only input event, does not emit the keydown, keyup or keypress events.",
    examples: ["keyboard_insert_text('Hello world!')"],
    parameters: [text("text")],
    perform: ({ text: typed }, { tabs }) => tabs.active.keyboard.insertText(typed as string),
  },
];
