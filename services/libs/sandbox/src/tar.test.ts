// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readTar, writeTar } from "./tar.ts";

const folder = mkdtempSync(join(tmpdir(), "whetstone-tar-"));
const tar = (...args: string[]): Buffer => execFileSync("tar", args, { cwd: folder });
afterAll(() => {
  rmSync(folder, { recursive: true });
});

describe("archives", () => {
  const long = `${"folder/".repeat(30)}file.txt`;

  it("are what tar reads", () => {
    const files = [
      { path: "run.sh", content: "echo hi", executable: true },
      { path: "a/b", content: new Uint8Array(1000) },
      { path: long, content: "ö" },
    ];
    writeFileSync(join(folder, "in.tar"), writeTar(files));
    tar("-xf", "in.tar");
    expect(statSync(join(folder, "run.sh")).mode & 0o777).toBe(0o755);
    expect(readFileSync(join(folder, "a/b")).length).toBe(1000);
    expect(readFileSync(join(folder, long), "utf8")).toBe("ö");
    expect(readTar(writeTar(files))).toMatchObject(files.map(({ path }) => ({ path })));
  });

  it("give regular files only: no links, no paths that lead elsewhere", () => {
    mkdirSync(join(folder, "out"));
    writeFileSync(join(folder, "out/real"), "x");
    symlinkSync("/etc/passwd", join(folder, "out/link"));
    execFileSync("mkfifo", [join(folder, "out/pipe")]);
    expect(readTar(tar("-c", "-f-", "--format=gnu", "out")).map(({ path }) => path)).toEqual(["out/real"]);
    for (const into of ["../real", "/tmp/real", "a/../../real"]) {
      const archive = tar("-c", "-f-", "-P", `--transform=s,.*,${into},`, "out/real");
      expect(readTar(archive)).toEqual([]);
    }
  });

  it.each(["", "/etc/x", "../x", "a/../../x", "a//b", "./a", "a/.", "a\0b"])("%j is no path of a file", (path) => {
    expect(() => writeTar([{ path, content: "" }])).toThrow(/^files\[0\]: /u);
  });

  it("that are damaged are refused", () => {
    const archive = writeTar([{ path: "a", content: "x".repeat(600) }]);
    expect(() => readTar(archive.subarray(0, 1000))).toThrow(/ends within a file/);
    archive[3] = 1;
    expect(() => readTar(archive)).toThrow(/header is damaged/);
  });
});
