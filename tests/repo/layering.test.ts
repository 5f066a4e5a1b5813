// SPDX-License-Identifier: Apache-2.0
// Imports go one way (ARCHITECTURE.md, CONTRIBUTING.md): tests → services → libs → proto, and inside a service
// main → app → {handlers, loop, adapters, commands, runtime} → domain.
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { globSync } from "node:fs";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");
const LIBS = ["core", "telemetry", "tls", "rpc", "messaging", "sdk", "modules", "kube", "audit", "testkit"];
/** What a library may import of ours. */
const ALLOWED: Record<string, readonly string[]> = {
  core: [],
  telemetry: ["core"],
  tls: ["core", "telemetry"],
  rpc: ["core", "telemetry", "tls", "proto"],
  messaging: ["core", "telemetry", "tls", "proto"],
  sdk: ["core"],
  modules: ["core", "telemetry", "sdk"],
  kube: ["core", "telemetry"],
  audit: ["core", "messaging", "proto"],
  testkit: ["core", "telemetry", "tls", "messaging", "rpc", "proto"],
};

interface Import {
  readonly file: string;
  readonly target: string;
}

/** A comment may say how something is imported. */
const COMMENT_LINE = /^\s*(\/\/|\/?\*).*$/gm;

function importsBelow(folder: string): Import[] {
  const files = globSync("**/*.ts", { cwd: join(root, folder) }).filter((file) => !file.includes("node_modules"));
  return files.flatMap((file) => {
    const text = readFileSync(join(root, folder, file), "utf8").replaceAll(COMMENT_LINE, "");
    const targets = [...text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((match) => match[1] as string);
    return targets.map((target) => ({ file: join(folder, file), target }));
  });
}

const services = globSync("services/*/package.json", { cwd: root }).map((path) => dirname(path));
const isTest = (file: string): boolean => /\.test\.ts$|\/(bench|tests?|test-support)\//.test(file);

describe("layering", () => {
  it.each(LIBS)("library %s imports only what it may", (lib) => {
    const allowed = new Set((ALLOWED[lib] ?? []).map((name) => `@whetstone/${name}`));
    const wrong = importsBelow(`services/libs/${lib}`)
      .filter(({ file }) => !isTest(file))
      .filter(({ target }) => target.startsWith("@whetstone/"))
      .filter(({ target }) => !allowed.has(target.split("/").slice(0, 2).join("/")));
    expect(wrong).toEqual([]);
  });

  it.each(services)("%s imports no other service", (service) => {
    const names = services.filter((other) => other !== service).map((other) => other.split("/")[1] as string);
    const wrong = importsBelow(service).filter(({ file, target }) => {
      if (names.some((name) => target.startsWith(`@whetstone/${name}`))) return true;
      return (
        target.startsWith(".") && relative(join(root, service), join(root, dirname(file), target)).startsWith("..")
      );
    });
    expect(wrong).toEqual([]);
  });

  it.each(services)("%s keeps its domain free of clock and I/O", (service) => {
    const wrong = importsBelow(`${service}/src`)
      .filter(({ file }) => file.includes("/src/domain/") && !isTest(file))
      .filter(
        ({ target }) => /^node:(fs|net|http|child_process|timers)/.test(target) || /^\.\.\/(?!domain)/.test(target),
      );
    expect(wrong).toEqual([]);
  });

  it("only tests import the testkit", () => {
    const wrong = importsBelow("services").filter(
      ({ file, target }) => target.startsWith("@whetstone/testkit") && !isTest(file),
    );
    expect(wrong).toEqual([]);
  });
});
