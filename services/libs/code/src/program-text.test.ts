// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { programOf } from "./program-text.ts";

describe("the program in a text", () => {
  it.each([
    ["no program here", undefined],
    ["```python\nprint(1)\n```", "print(1)\n"],
    ["First:\n```py\na\n```\nbetter:\n```Python3 title=x\nb\n```\nRun it:\n```sh\npython b.py\n```", "b\n"],
    ["```\nplain\n```", "plain\n"],
    ["```python\nreal\n```\nwhich prints\n```\n42\n```", "real\n"],
    ["```js\nconsole.log(1)\n```", undefined],
    ["<think>```python\ndraft\n```</think> I give up.", undefined],
    ["```python\ncut off", undefined],
    ["```python\n\n```", undefined],
    ["~~~python\nx = '''```'''\n~~~", "x = '''```'''\n"],
    ["1. So:\n   ```python\n   x\n   ```", "   x\n"],
  ])("%j", (text, program) => {
    expect(programOf(text)).toBe(program);
  });
});
