// SPDX-License-Identifier: Apache-2.0
import { type OutputUnit, Validator } from "@cfworker/json-schema";
import { WhetstoneError } from "@whetstone/core";
import type { Awaitable, ImagePart, Info, ToolSpec } from "@whetstone/sdk";

export interface ToolRunOptions {
  /** Aborts at the call's deadline and at the episode's. */
  readonly signal: AbortSignal;
}

/** What a tool is to the model. */
export interface ToolDescription {
  /** Letters, digits, "_" and "-", at most 64. */
  readonly name: string;
  readonly description: string;
  /** JSON Schema (2020-12) of the arguments, `{ type: "object", … }`. */
  readonly parameters: Info;
}

/**
 * Something that the model may call. One instance serves all episodes at once: keep an episode's state out of it.
 * What the model did wrong is thrown as `ToolError` and goes back to it as the call's output; anything else that is thrown
 * ends the episode as a failure of the environment (or of the class that an `EpisodeError` names).
 */
export abstract class Tool implements ToolDescription {
  abstract readonly name: string;
  abstract readonly description: string;
  abstract readonly parameters: Info;
  /** Goes into the info of every step: what an episode's record should say of the tool. */
  readonly info: Info = {};

  /** @returns a text, a value that is shown as JSON, an `OutputWithImages`, or a `FinalOutput`. @param args  valid by `parameters`. */
  abstract run(args: Info, options: ToolRunOptions): Awaitable<unknown>;

  /** OpenAI's function format. */
  get spec(): ToolSpec {
    const { name, description, parameters } = this;
    return { type: "function", function: { name, description, parameters } };
  }
}

/** What a tool returns when the model has ended the episode with this call; the text is its final answer. */
export class FinalOutput {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

/** What a tool returns that has pictures beside its text. */
export class OutputWithImages {
  readonly text: string;
  readonly images: readonly ImagePart[];

  constructor(text: string, images: readonly ImagePart[]) {
    this.text = text;
    this.images = images;
  }
}

/** The model's own mistake; the message is for it. */
export class ToolError extends WhetstoneError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super("INVALID_ARGUMENT", message, options);
  }
}

export interface ToolDefinition<Args> extends ToolDescription {
  readonly run: (args: Args, options: ToolRunOptions) => Awaitable<unknown>;
}

/** A tool from a function. `Args` is the author's word for what `parameters` allows. */
export function defineTool<Args = Info>(definition: ToolDefinition<Args>): Tool {
  return new DefinedTool(definition as ToolDefinition<Info>);
}

class DefinedTool extends Tool {
  readonly name: string;
  readonly description: string;
  readonly parameters: Info;
  readonly #run: ToolDefinition<Info>["run"];

  constructor({ name, description, parameters, run }: ToolDefinition<Info>) {
    super();
    this.name = name;
    this.description = description;
    this.parameters = parameters;
    this.#run = run;
  }

  run(args: Info, options: ToolRunOptions): Awaitable<unknown> {
    return this.#run(args, options);
  }
}

const MAX_ERRORS = 3;

/** Says what is wrong with arguments, or undefined. */
export type ArgumentCheck = (args: Info) => string | undefined;

export function argumentCheck({ parameters }: ToolDescription): ArgumentCheck {
  const validator = new Validator(parameters, "2020-12", false);
  return (args) => {
    const { valid, errors } = validator.validate(args);
    return valid ? undefined : described(errors);
  };
}

function described(errors: readonly OutputUnit[]): string {
  const told = innermost(errors).slice(0, MAX_ERRORS);
  return told.map(({ instanceLocation, error }) => `${pathOf(instanceLocation)}: ${error}`).join(" ");
}

/** "#/points/0" → "arguments.points.0". */
function pathOf(location: string): string {
  return ["arguments", ...location.split("/").slice(1)].join(".");
}

const OUTER: ReadonlySet<string> = new Set(["properties", "items", "anyOf", "oneOf", "allOf"]);

/** The innermost complaints of a schema: the outer ones only say that something inside is wrong. */
function innermost(errors: readonly OutputUnit[]): readonly OutputUnit[] {
  const inner = errors.filter(({ keyword }) => !OUTER.has(keyword));
  return inner.length > 0 ? inner : errors;
}
