// SPDX-License-Identifier: Apache-2.0
/** One .d.ts file for each entry, with the types of our own workspaces in it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { rollup } from "rollup";
import { dts } from "rollup-plugin-dts";
import { ROOT } from "./workspaces.ts";

/** @throws Error when a type is not exported from where it is imported. */
export async function declarations(
  entries: Readonly<Record<string, string>>,
  folder: string,
  inlined: readonly string[],
): Promise<void> {
  const external = (id: string): boolean => /^[^./]/.test(id) && !inlined.includes(id);
  const plugins = [dts({ tsconfig: join(ROOT, "tsconfig.json"), includeExternal: [...inlined] })];
  const onwarn = ({ message }: { message: string }): never => {
    throw new Error(message);
  };
  for (const [name, input] of Object.entries(entries)) {
    const bundle = await rollup({ input, external, plugins, onwarn });
    const { output } = await bundle.generate({ format: "es" });
    writeFileSync(join(folder, `${name}.d.ts`), output[0].code);
    await bundle.close();
  }
}
