// SPDX-License-Identifier: Apache-2.0
import type { Range } from "@whetstone/core";

export interface FieldRules {
  readonly type:
    "bool" | "string" | "bytes" | "double" | "uint32" | "uint64" | "duration" | "mapping" | "enum" | "message";
  readonly message?: string;
  /** Of the names that protobuf has for the choices. */
  readonly prefix?: string;
  readonly choices?: readonly string[];
  readonly isList?: boolean;
  readonly isRequired?: boolean;
  readonly range?: Range | undefined;
  readonly pattern?: string;
  readonly hint?: string;
}

export interface MessageRules {
  readonly fields: Readonly<Record<string, FieldRules>>;
  readonly oneofs?: readonly { readonly members: readonly string[]; readonly isNeeded: boolean }[];
  /** It is nothing but one of several; one without settings may be given by its name alone. */
  readonly isChoice?: boolean;
}
