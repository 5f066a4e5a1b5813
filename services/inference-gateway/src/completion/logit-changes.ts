// SPDX-License-Identifier: Apache-2.0

/** The form that an answer must have: any JSON value that is an object, or one that a JSON schema describes. */
export type AnswerForm = { readonly kind: "json" } | { readonly kind: "schema"; readonly schema: object };

/**
 * What changes the model's own distribution before a token is drawn, as OpenAI and vLLM name it. No step can train such a
 * call, since the trainer knows the model's distribution only.
 */
export interface LogitChanges {
  /** Taken once from every token that the answer has already, -2 to 2. */
  readonly presencePenalty?: number | undefined;
  /** Taken from a token as often as the answer has it, -2 to 2. */
  readonly frequencyPenalty?: number | undefined;
  /** Divides what speaks for a token that prompt or answer have, and multiplies what speaks against it. 1 is off. */
  readonly repetitionPenalty?: number | undefined;
  /** Added to the logits, by token id, -100 to 100. */
  readonly logitBias?: Readonly<Record<string, number>> | undefined;
  readonly form?: AnswerForm | undefined;
}

const FIELDS = {
  presencePenalty: "presence_penalty",
  frequencyPenalty: "frequency_penalty",
  repetitionPenalty: "repetition_penalty",
  logitBias: "logit_bias",
  form: "response_format",
} as const satisfies Record<keyof LogitChanges, string>;

/** The names of the fields that asked for it. */
export function changedBy(logits: LogitChanges | undefined): string[] {
  if (logits === undefined) return [];
  return (Object.keys(FIELDS) as (keyof LogitChanges)[])
    .filter((key) => logits[key] !== undefined)
    .map((key) => FIELDS[key]);
}

/** As the engine takes them. A field that was not asked for is left out, for engines that do not know it. */
export function wireLogits(logits: LogitChanges | undefined): object | undefined {
  if (logits === undefined) return undefined;
  const { form, ...others } = logits;
  const named = Object.entries(others).map(([key, value]): [string, unknown] => [
    FIELDS[key as keyof typeof others],
    value,
  ]);
  return { ...Object.fromEntries(named), ...(form && { structured_outputs: formOf(form) }) };
}

function formOf(form: AnswerForm): object {
  return form.kind === "json" ? { json_object: true } : { json: form.schema };
}
