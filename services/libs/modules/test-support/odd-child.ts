// SPDX-License-Identifier: Apache-2.0
/** A child that does what it is told, also what user code must not do. */
import type { Info } from "@whetstone/sdk";
import { type CallScope, loadModule, NOWHERE, serveChild } from "../src/child.ts";

interface Exports {
  readonly act?: (what: string, scope: CallScope) => unknown;
}

serveChild(async ({ code }: { readonly code: Uint8Array }) => {
  const exports = (await loadModule(code, { folder: NOWHERE })) as Info & Exports;
  return {
    methods: {
      echo: (payload: unknown) => payload,
      ask: (payload: unknown, scope: CallScope) => scope.ask("what", payload),
      act: (what: string, scope: CallScope) => exports.act?.(what, scope),
    },
  };
});
