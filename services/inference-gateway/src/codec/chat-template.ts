// SPDX-License-Identifier: Apache-2.0
import { Template } from "@huggingface/jinja";
import { ApiError } from "../completion/api-error.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { Tools, TemplateVariables } from "../completion/request.ts";
import { type Compiled, compiled } from "./jinja/compile.ts";
import { PROBES } from "./jinja/probes.ts";
import { rewriteStripCalls, STRIP_FUNCTIONS } from "./python-strip.ts";

/** A chat template, parsed once. Same variables and options as `apply_chat_template` of Hugging Face transformers. */
export class ChatTemplate {
  readonly #template: Template;
  /** Undefined: the template has what we do not compile. */
  readonly #compiled: Compiled | undefined;
  readonly #specialTokens: Readonly<Record<string, string>>;

  /** @throws Error when the template does not parse. */
  constructor(source: string, specialTokens: Readonly<Record<string, string>>) {
    this.#template = new Template(source);
    rewriteStripCalls(this.#template.parsed);
    this.#specialTokens = specialTokens;
    const fast = compiled(this.#template.parsed);
    if (fast && this.#agrees(fast)) this.#compiled = fast;
  }

  /** Whether it is compiled, or interpreted at each rendering. */
  get isCompiled(): boolean {
    return this.#compiled !== undefined;
  }

  /** @param further  add_generation_prompt, and the client's own. @throws ApiError 400 with the template's own words when it refuses the conversation. */
  render(messages: readonly TemplateMessage[], tools: Tools, further: TemplateVariables): string {
    const variables = this.#variables(messages, tools, further);
    try {
      return outcomeOf(this.#compiled, variables) ?? this.#template.render(variables);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ApiError("INVALID_ARGUMENT", "template_refused", `messages: the chat template says: ${reason}`, {
        param: "messages",
      });
    }
  }

  #variables(messages: readonly TemplateMessage[], tools: Tools, further: TemplateVariables): Record<string, unknown> {
    // transformers passes None for what is not given, and None is not undefined in Jinja.
    const own = { ...STRIP_FUNCTIONS, ...this.#specialTokens, messages, tools: tools ?? null, documents: null };
    return { ...further, ...own };
  }

  /** Prints the probes as the interpreter does, as far as it prints them. */
  #agrees(fast: Compiled): boolean {
    return PROBES.every(({ messages, tools }) => {
      const variables = this.#variables(messages, tools, { add_generation_prompt: true });
      const text = outcomeOf(fast, variables);
      return text === undefined || text === outcomeOf((given) => this.#template.render(given), variables);
    });
  }
}

/** Undefined: it cannot say, or refuses; only the interpreter's words for that are those of the template. */
function outcomeOf(print: Compiled | undefined, variables: Readonly<Record<string, unknown>>): string | undefined {
  try {
    return print?.(variables);
  } catch {
    return undefined;
  }
}
