// SPDX-License-Identifier: Apache-2.0
/** Which fields \`withDefaults\` fills in, for the compiler. */
import type { DescMessage } from "@bufbuild/protobuf";
import { rulesOf } from "@whetstone/contract/rules";

export function filledFields(messages: readonly DescMessage[]): string {
  const lines = messages.flatMap(({ typeName, fields }) => {
    const filled = fields.filter((field) => rulesOf(field).defaultValue !== undefined && field.oneof === undefined);
    return filled.length === 0
      ? []
      : [`"${typeName}": ${filled.map(({ localName }) => `"${localName}"`).join(" | ")};`];
  });
  return `// SPDX-License-Identifier: Apache-2.0
// Generated from the contract by \`make gen\`. Do not edit.
/** By message, the fields that have a default. */
export interface FilledFields {
${lines.join("\n")}
}
`;
}
