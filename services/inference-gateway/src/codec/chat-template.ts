// SPDX-License-Identifier: Apache-2.0
import { Template } from "@huggingface/jinja";
import { ApiError } from "../completion/api-error.ts";
import type { TemplateMessage } from "../completion/message.ts";
import type { Tools, TemplateVariables } from "../completion/request.ts";
import { rewriteStripCalls, STRIP_FUNCTIONS } from "./python-strip.ts";

/** A chat template, parsed once. Same variables and options as `apply_chat_template` of Hugging Face transformers. */
export class ChatTemplate {
  readonly #template: Template;
  readonly #specialTokens: Readonly<Record<string, string>>;

  /** @throws Error when the template does not parse. */
  constructor(source: string, specialTokens: Readonly<Record<string, string>>) {
    this.#template = new Template(source);
    rewriteStripCalls(this.#template.parsed);
    this.#specialTokens = specialTokens;
  }

  /** @param further  add_generation_prompt, and the client's own. @throws ApiError 400 with the template's own words when it refuses the conversation. */
  render(messages: readonly TemplateMessage[], tools: Tools, further: TemplateVariables): string {
    // transformers passes None for what is not given, and None is not undefined in Jinja.
    const variables = { ...STRIP_FUNCTIONS, ...this.#specialTokens, messages, tools: tools ?? null, documents: null };
    try {
      return this.#template.render({ ...further, ...variables });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ApiError("INVALID_ARGUMENT", "template_refused", `messages: the chat template says: ${reason}`, {
        param: "messages",
      });
    }
  }
}
