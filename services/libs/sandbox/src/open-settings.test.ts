// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { openSettings } from "./open-settings.ts";

describe("what a sandbox is opened with", () => {
  it("has defaults, and names each field that is out of its range", () => {
    expect(openSettings({})).toMatchObject({ limits: { memoryMiB: 512 }, ttlMs: 3_600_000, imageFolders: [] });
    const wrong = { limits: { memoryMiB: 1, cpus: 2, wallMs: Number.NaN }, ttlMs: 1 };
    expect(() => openSettings(wrong)).toThrow(/limits\.memoryMiB.*\n.*limits\.wallMs.*\n.*ttlMs/u);
  });

  it("may have folders of its image", () => {
    expect(openSettings({ imageFolders: ["/testbed", "/opt/my conda/envs"] }).imageFolders).toHaveLength(2);
  });

  it.each([
    "",
    "/",
    "testbed",
    "/proc/self",
    "/etc",
    "/workspace/a",
    "/tmp",
    "/a/../etc",
    "/a//b",
    "/a/",
    "/a:rw",
    "/a,b",
  ])("may not have %j as one", (folder) => {
    expect(() => openSettings({ imageFolders: ["/testbed", folder] })).toThrow(/imageFolders\[1\]/u);
  });

  it("may have empty folders, but not where its programs are", () => {
    expect(openSettings({ emptyFolders: ["/app", "/srv/adder"] }).emptyFolders).toHaveLength(2);
    for (const folder of ["/usr/local", "/bin", "/etc", "/tmp", "app", "/a/../usr"])
      expect(() => openSettings({ emptyFolders: [folder] })).toThrow(/emptyFolders\[0\]/u);
  });

  it("may not have many", () => {
    const imageFolders = Array.from({ length: 17 }, (_, index) => `/f${index}`);
    expect(() => openSettings({ imageFolders })).toThrow(/imageFolders: must be 16 at most/u);
  });
});
