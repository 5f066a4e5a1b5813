// SPDX-License-Identifier: Apache-2.0
/** The files of a new project, from a template. */

/** npm leaves a `.gitignore` out of packages, so the template's has another name. */
const RENAMED: Readonly<Record<string, string>> = { gitignore: ".gitignore" };

/** The two packages of ours that a project needs. */
export const PACKAGES = ["@whetstone/sdk", "@whetstone/cli"] as const;

/** By path. `template` holds the template's files, by path; `ours` says where npm finds each of our packages. */
export function projectFiles(
  folder: string,
  ours: Readonly<Record<string, string>>,
  template: Readonly<Record<string, string>>,
): Record<string, string> {
  const name = packageName(folder);
  const files = Object.entries(template).map(([path, text]): [string, string] => [
    RENAMED[path] ?? path,
    text.replaceAll("{{name}}", name),
  ]);
  const manifest = `${JSON.stringify(packageJson(name, ours), null, 2)}\n`;
  return { "package.json": manifest, ...Object.fromEntries<string>(files) };
}

function packageJson(name: string, ours: Readonly<Record<string, string>>): object {
  return {
    name,
    version: "0.0.0",
    private: true,
    type: "module",
    scripts: {
      // An older Node finds no tests in TypeScript, and does not say why.
      pretest: "node test/require-node.mjs",
      test: 'node --test "test/**/*.ts"',
      train: "whet train src/job.ts",
      eval: "whet eval --job src/job.ts",
      check: "tsc",
    },
    dependencies: ours,
    devDependencies: { "@types/node": "^24.0.0", typescript: "^6.0.0" },
    engines: { node: ">=24.2" },
  };
}

/** npm's rule: lower-case, safe in a URL. */
function packageName(folder: string): string {
  const safe = folder
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^-+|-+$/g, "");
  return safe === "" ? "agents" : safe;
}
