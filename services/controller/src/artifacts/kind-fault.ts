// SPDX-License-Identifier: Apache-2.0
import type { ArtifactKindName } from "@whetstone/core";
import type { StoredFile } from "./layout.ts";

const MODEL_FILES: readonly (readonly [string, RegExp])[] = [
  ["config.json", /^config\.json$/],
  ["tokenizer.json", /^tokenizer\.json$/],
  ["*.safetensors", /^[^/]*\.safetensors$/],
];

/** Undefined: these files may be of the kind. What is in them is looked at when a job names them. */
export function kindFault(kind: ArtifactKindName, files: readonly StoredFile[]): string | undefined {
  const has = (pattern: RegExp): boolean => files.some(({ path }) => pattern.test(path));
  switch (kind) {
    case "models": {
      const absent = MODEL_FILES.find(([, pattern]) => !has(pattern));
      return absent && `the folder has no ${absent[0]}: not a model in Hugging Face layout`;
    }
    case "datasets":
      return has(/\.jsonl$/) ? undefined : "there is no file *.jsonl: not a data set";
    case "tasks":
      return undefined;
  }
}
