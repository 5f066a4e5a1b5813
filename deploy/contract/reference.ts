// SPDX-License-Identifier: Apache-2.0
/** docs/job-reference.md: every setting of a job. */
import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { isNeeded, rulesOf } from "@whetstone/contract/rules";
import { defaultOf, meaningOf, purposeOf, rangeOf, typeOf } from "./facts.ts";

const HEAD = `# A job's settings

<!-- Generated from proto/ by \`make gen\`. Do not edit: change the contract. -->

Each table is a part of the job. Names are those of a YAML job file, of \`defineJob\` and of a TrainingJob's \`spec.job\`.
Choices are written in lower case (\`token-mean\`); a TrainingJob takes their long names (\`LOSS_AGGREGATION_TOKEN_MEAN\`).
Durations are texts: \`"250ms"\`, \`"30s"\`, \`"20m"\`, \`"2h"\`; a TrainingJob takes seconds alone (\`"30s"\`).
In \`grpo({…})\` and \`sft({…})\` the settings of optimizer and batching stand beside the algorithm's own.
What breaks a rule is refused before anything starts, with the path of the setting.
`;

export function jobReference(messages: readonly DescMessage[]): string {
  return [
    HEAD,
    ...messages.filter(({ fields }) => fields.length > 0).map((message) => section(message, messages)),
  ].join("\n");
}

function section(message: DescMessage, messages: readonly DescMessage[]): string {
  const head = ["setting", "type", "range", "default", "meaning"];
  const rows = message.fields.map((field) => row(field, messages));
  const table = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
  return `## ${message.name}\n\n${purposeOf(message, messages)}\n\n${table}\n${choices(message)}`;
}

function row(field: DescField, messages: readonly DescMessage[]): string[] {
  const { isRequired } = rulesOf(field);
  const linked = messages.find(({ name }) => name === typeOf(field));
  const name = linked && linked.fields.length > 0 ? `[${linked.name}](#${linked.name.toLowerCase()})` : typeOf(field);
  const type = field.fieldKind === "list" ? `list of ${name}` : name;
  const value = isRequired ? "required" : (defaultOf(field) ?? "");
  return [`\`${field.jsonName}\``, type, rangeOf(field), value, meaningOf(field, messages)].map((cell) =>
    cell.replaceAll("|", "\\|"),
  );
}

function choices({ oneofs }: DescMessage): string {
  return oneofs
    .filter(({ fields }) => fields.length > 1)
    .map(
      (oneof) =>
        `\n${isNeeded(oneof) ? "Exactly" : "At most"} one of ${oneof.fields.map(({ jsonName }) => `\`${jsonName}\``).join(", ")}.\n`,
    )
    .join("");
}
