// SPDX-License-Identifier: Apache-2.0
import type { ActionSubset, ToolSpec } from "@whetstone/sdk";
import { type ActionDefinition, ActionError, type ActionScene, type Parameter } from "./action.ts";
import { type Call, parseCalls } from "./calls.ts";
import { ON_ELEMENTS } from "./on-elements.ts";
import { ON_PAGES } from "./on-pages.ts";
import { ON_POINTS } from "./on-points.ts";
import { bindArguments } from "./parameters.ts";

const ALL = [...ON_PAGES, ...ON_ELEMENTS, ...ON_POINTS];

/** What an agent may do, in both forms: as text, and as tools. */
export class ActionSpace {
  readonly #definitions: ReadonlyMap<string, ActionDefinition>;
  readonly #several: boolean;

  /** @param options.several  several actions may be given at once */
  constructor(subsets: readonly ActionSubset[], { several = false }: { readonly several?: boolean } = {}) {
    const offered = ALL.filter(({ subset }) => subset === undefined || subsets.includes(subset));
    this.#definitions = new Map(offered.map((definition) => [definition.name, definition]));
    this.#several = several;
  }

  /** OpenAI's function format. */
  get tools(): readonly ToolSpec[] {
    return [...this.#definitions.values()].map(({ name, description, parameters }) => ({
      type: "function",
      function: { name, description, parameters: schemaOf(parameters) },
    }));
  }

  /** For a prompt; the form is BrowserGym's. */
  describe(): string {
    const each = [...this.#definitions.values()].map(
      ({ name, description, examples, parameters }) =>
        `${name}(${parameters.map(signatureOf).join(", ")})\n    Description: ${description}\n    Examples:\n` +
        examples.map((example) => `        ${example}\n`).join("\n"),
    );
    const how = this.#several
      ? "Multiple actions can be provided at once, but will be executed sequentially without any feedback from the page.\nMore than 2-3 actions usually leads to failure or unexpected behavior."
      : "Only a single action can be provided at once.";
    return `${this.#definitions.size} different types of actions are available.\n\n${each.join("\n")}\n${how}`;
  }

  /** The calls of a text. @throws ActionError in BrowserGym's words */
  parse(text: string): readonly Call[] {
    const calls = parseCalls(text);
    if (calls.length === 0) throw new ActionError("ValueError", "Received an empty action.");
    if (calls.length > 1 && !this.#several)
      throw new ActionError("ValueError", "Received a multi-action, only single-actions are allowed.");
    for (const call of calls) this.#definitionOf(call);
    return calls;
  }

  /** @throws ActionError, and Playwright's errors */
  async perform(call: Call, scene: ActionScene): Promise<void> {
    const { parameters, perform } = this.#definitionOf(call);
    await perform(bindArguments(call, parameters), scene);
  }

  #definitionOf({ name }: Call): ActionDefinition {
    const definition = this.#definitions.get(name);
    if (definition === undefined) throw new ActionError("NameError", `Invalid action type '${name}'.`);
    return definition;
  }
}

function schemaOf(parameters: readonly Parameter[]) {
  return {
    type: "object",
    properties: Object.fromEntries(parameters.map(({ name, schema }) => [name, schema])),
    required: parameters.filter(({ fallback }) => fallback === undefined).map(({ name }) => name),
    additionalProperties: false,
  };
}

function signatureOf({ name, type, fallback }: Parameter): string {
  if (fallback === undefined) return `${name}: ${type}`;
  return `${name}: ${type} = ${pythonLiteral(fallback)}`;
}

function pythonLiteral(value: Parameter["fallback"]): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "string" ? `'${value}'` : JSON.stringify(value);
}
