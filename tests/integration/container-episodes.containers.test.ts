// SPDX-License-Identifier: Apache-2.0
// Episodes whose sandboxes are containers of a real engine.
import { afterAll, describe, expect, it } from "vitest";
import { codeEnvironment } from "../../services/env-runner/src/environments/code.ts";
import { Sandboxes } from "../../services/env-runner/src/sandboxes/sandboxes.ts";
import { daemonProgram } from "../../services/libs/sandbox/test-support/daemon-program.ts";

const IMAGE = process.env["WHETSTONE_TEST_SANDBOX_IMAGE"] ?? "python:3.11-slim-bookworm";

describe("an episode of code in a container", () => {
  const sandboxes = new Sandboxes({ daemonPath: daemonProgram() });
  const code = codeEnvironment(sandboxes);
  const cases = [
    { input: "2\n", output: "4\n" },
    { input: "21\n", output: "42\n" },
  ];
  const args = {
    question: "Print twice the number that is read.",
    tests: { kind: "stdin", cases },
    sandbox: { backend: "docker", image: IMAGE },
  };
  afterAll(async () => {
    await sandboxes[Symbol.asyncDispose]();
  });

  it.each([
    { program: "print(2 * int(input()))", reward: 1 },
    { program: "print(input())", reward: 0 },
  ])("is judged, and says where: $program", async ({ program, reward }) => {
    const environment = code.create(args);
    await environment.reset({ seed: 1 });
    const step = await environment.step(`\`\`\`python\n${program}\n\`\`\``, {});
    expect(step).toMatchObject({ reward, info: { sandboxLevel: "container" } });
    await environment.close();
  });

  it("has no level of the machine's own sandboxes, and no image that is not there", async () => {
    const level = code.create({ ...args, sandboxLevel: "A" });
    await expect(level.reset({ seed: 1 })).rejects.toThrow(/sandboxLevel: A is wanted at least.*container/u);
    const image = code.create({ ...args, sandbox: { backend: "docker", image: "localhost/no-such-image:1" } });
    await expect(image.reset({ seed: 1 })).rejects.toMatchObject({
      failureClass: "INFRASTRUCTURE",
      message: expect.stringContaining('no image "localhost/no-such-image:1"') as string,
    });
  });
});
