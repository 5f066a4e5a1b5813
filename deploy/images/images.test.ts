import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SERVICES } from "../pack/packages.ts";
import { ROOT } from "../pack/workspaces.ts";
import { copyDependencies } from "./dependencies.ts";

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const ofServices = SERVICES.map((name) => `services/${name}/Dockerfile`);
const ofPython = ["Dockerfile", "environments.Dockerfile", "verl.Dockerfile"].map((name) => `python-trainer/${name}`);
const dockerfiles = [...ofServices, ...ofPython];

describe("Dockerfiles", () => {
  it.each(dockerfiles)("%s builds with the classic builder, and runs as user 10001", (path) => {
    const text = read(path);
    expect(text).not.toMatch(/^#\s*syntax=|--mount=|<<|--link/m);
    expect(text.match(/^USER .*/gm)?.at(-1)).toBe("USER 10001:10001");
  });

  it("share their stages, so that the builder runs them once", () => {
    const shared = SERVICES.map((name) => read(`services/${name}/Dockerfile`).replaceAll(name, "<service>"));
    const untilTheLast = shared.map((text) => text.slice(0, text.lastIndexOf("\nFROM runtime")));
    expect(new Set(untilTheLast).size).toBe(1);
  });
});

describe("copyDependencies", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "images-"));
    write("out/package.json", { dependencies: { a: "1", "@whetstone/sdk": "1" } });
    write("sdk/package.json", { dependencies: { c: "1" } });
    write("node_modules/a/package.json", { dependencies: { b: "2" }, optionalDependencies: { rare: "1" } });
    write("node_modules/a/index.d.ts", {});
    write("node_modules/a/node_modules/b/package.json", { version: "2" });
    write("node_modules/a/node_modules/unused/package.json", {});
    write("node_modules/b/package.json", { version: "1" });
    write("node_modules/c/package.json", {});
  });
  afterEach(() => rmSync(root, { recursive: true }));

  function write(path: string, content: object): void {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    writeFileSync(join(root, path), JSON.stringify(content));
  }
  const copy = (): void => copyDependencies(join(root, "out"), { sdk: join(root, "sdk"), root });
  const copied = (path: string): boolean => existsSync(join(root, "out/node_modules", path));

  it("takes what is needed, in the version that its user sees, and the SDK", () => {
    copy();
    for (const path of ["a", "a/node_modules/b", "c", "@whetstone/sdk"])
      expect([path, copied(path)]).toEqual([path, true]);
    for (const path of ["b", "a/node_modules/unused", "rare", "a/index.d.ts"])
      expect([path, copied(path)]).toEqual([path, false]);
  });

  it("names what is not installed", () => {
    write("sdk/package.json", { dependencies: { lost: "1" } });
    expect(copy).toThrow("lost is not installed");
  });
});
