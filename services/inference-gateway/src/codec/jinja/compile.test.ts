// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Template } from "@huggingface/jinja";
import { createRng } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { ChatTemplate } from "../chat-template.ts";
import { rewriteStripCalls, STRIP_FUNCTIONS } from "../python-strip.ts";
import { compiled } from "./compile.ts";
import { PROBES } from "./probes.ts";
import { NotCompiled } from "./values.ts";

const FAMILIES = fileURLToPath(new URL("../../../test/templates", import.meta.url));

const VARIABLES = {
  text: " Ab c\n",
  umlaut: "ü\u{1f642}",
  empty: "",
  n: 3,
  half: 0.5,
  yes: true,
  list: ["b", "a", 2],
  object: { a: 1, b: { c: [1, "x", null, true] }, items: "own" },
  people: [
    { name: "A", age: 3 },
    { name: "B", age: null },
    { age: 0, name: "C", gone: false },
  ],
};
/** Each prints something, or is refused by both. */
const TEMPLATES = [
  "{{ text }}{{ n }}{{ yes }}{{ absent }}{{ half }}{{ list }}{{ object }}",
  "{{ text | trim }}|{{ text | length }}|{{ umlaut | length }}|{{ list | join(', ') }}|{{ umlaut | upper }}",
  "{{ object | tojson }}{{ object | tojson(indent=2) }}{{ umlaut | tojson(ensure_ascii=True) }}{{ people | tojson(indent=4) }}",
  "{% for x in list %}{{ loop.index0 }}{{ loop.last }}{{ x }}{% if not loop.last %},{% endif %}{% else %}none{% endfor %}",
  "{% for k, v in object.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in object.b | items %}{{ k }}{% endfor %}",
  "{% for p in people if p.age %}{{ p.name }}{{ loop.length }}{{ loop.previtem is defined }}{% endfor %}",
  "{% for p in people %}{% if p.name == 'B' %}{% continue %}{% endif %}{{ p.name }}{% endfor %}",
  "{% for p in people %}{{ p.name }}{% if p.name == 'B' %}{% break %}{% endif %}{% endfor %}",
  "{% for x in [] %}{{ x }}{% else %}empty{% endfor %}{% for x in object %}{{ x }}{% endfor %}",
  "{% set ns = namespace(at=0, seen=false) %}{% for x in list %}{% set ns.at = ns.at + 1 %}{% endfor %}{{ ns.at }}{{ ns.seen }}",
  "{% set x = 1 %}{% for y in list %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
  "{% set block %}in {{ n }}{% endset %}{{ block }}{{ block | length }}",
  "{% macro say(a, b='two', c=3) %}{{ a }}{{ b }}{{ c }}{{ n }}{% endmacro %}{{ say(1) }}{{ say('x', c=text) }}{{ say(b=1) }}",
  "{% macro say(a) %}{{ a }}{% endmacro %}{{ say(1, 2) }}",
  "{{ list[0] }}{{ list[-1] }}{{ list[1:] }}{{ list[::-1] }}{{ umlaut[::-1] }}{{ text[1:3] }}{{ list[:-1] | length }}",
  "{{ object.a }}{{ object['b'].c[1] }}{{ object.zzz }}{{ absent.x }}{{ object.items }}{{ n.x }}{{ list.length }}",
  "{{ object.get('a') }}{{ object.get('zz') }}{{ object.get('zz', 'd') }}{{ object.b.keys() | list }}{{ object.b.values() | length }}",
  "{{ 'a' in object }}{{ 'b' in list }}{{ 'A' in text }}{{ 2 in list }}{{ 'x' not in list }}{{ 'a' in absent }}{{ text in ('a', 'b') }}",
  "{{ absent == none }}{{ n == 3 }}{{ n == '3' }}{{ yes == true }}{{ text != 'x' }}{{ list == list }}{{ null == absent }}",
  "{{ n + 1 }}{{ 7 // 2 }}{{ 7 % 3 }}{{ -n }}{{ n * 2 }}{{ n / 2 }}{{ 'a' + 'b' }}{{ 'a' ~ n ~ yes }}{{ list + [1] }}{{ 'a' + n }}",
  "{{ n > 2 and text }}{{ empty or 'else' }}{{ not list }}{{ [] or 'no' }}{{ {} or 'none' }}{{ 0 or n }}{{ n if yes else 'no' }}{{ 'x' if not yes }}",
  "{{ absent is defined }}{{ n is number }}{{ text is string }}{{ list is iterable }}{{ object is mapping }}{{ object is sequence }}{{ n is odd }}",
  "{{ absent is not defined }}{{ yes is true }}{{ yes is boolean }}{{ object.b.c[2] is none }}{{ absent is none }}{{ half is integer }}",
  "{{ absent | default('d') }}{{ empty | default('d') }}{{ empty | default('d', true) }}{{ n | default }}{{ empty | default('e', boolean=true) }}",
  "{{ people | selectattr('age') | list | length }}{{ people | selectattr('name', 'equalto', 'A') | length }}{{ people | rejectattr('gone') | length }}",
  "{{ people | selectattr('gone', 'defined') | length }}{{ people | map(attribute='name') | join('-') }}{{ list | first }}{{ list | last }}",
  "{{ text.startswith(' A') }}{{ text.endswith('x') }}{{ text.split(' ') }}{{ text.split() }}{{ text.split(' ')[-1] }}{{ text.upper() }}",
  "{{ text.replace('b', '$&') }}{{ text | replace('b', 'x') }}{{ text.title() }}{{ text.strip() }}{{ text.capitalize() }}",
  "{{ range(3) | list }}{{ range(1, 4) | length }}{{ raise_exception('no') }}",
  "{{ raise_exception('refused: ' ~ n) }}",
  "{{ text | nothing }}",
  "{{ text.toString() }}{{ object.hasOwnProperty('a') }}{{ object.constructor }}{{ people | selectattr('name', 'toString') | length }}",
  "{{ (1, 2) }}{{ 1.5 }}{{ 3.0 }}{{ 2 ** 3 }}{{ n | string + '!' }}{{ list | sort }}{{ people | length > 2 }}",
  "{%- if n == 1 -%} one {%- elif n == 3 -%} three {%- else -%} more {%- endif -%}",
  "{% filter upper %}x{% endfilter %}{{ absent.x.y }}",
  "{{ {'a': n, 'b': [text]} }}{{ {'1': n}['1'] }}{{ 'x' * 2 }}",
  "{# nothing #}{{ strftime_now('%Y') }}{% if strftime_now is defined %}yes{% endif %}",
];

type Outcome = { text: string } | { error: string } | "interpreted";

function interpreted(template: Template, variables: object): Outcome {
  try {
    return { text: template.render(variables as Record<string, unknown>) };
  } catch (error) {
    return { error: String(error) };
  }
}

function byCompiled(template: Template, variables: object): Outcome {
  const print = compiled(template.parsed);
  try {
    return print ? { text: print(variables as Record<string, unknown>) } : "interpreted";
  } catch (error) {
    return error instanceof NotCompiled ? "interpreted" : { error: String(error) };
  }
}

describe("a compiled template", () => {
  it.each(TEMPLATES)("prints as the interpreter does, or leaves it to it: %s", (source) => {
    const template = new Template(source);
    const outcome = byCompiled(template, VARIABLES);
    if (outcome !== "interpreted") expect(outcome).toEqual(interpreted(template, VARIABLES));
  });

  it("does so for each expression alone, and most of them are compiled", () => {
    const all = TEMPLATES.flatMap((source) => source.match(/\{\{[^}]+\}\}/g) ?? []);
    const left = all.filter((source) => {
      const template = new Template(source);
      const outcome = byCompiled(template, VARIABLES);
      if (outcome !== "interpreted") expect(outcome, source).toEqual(interpreted(template, VARIABLES));
      return outcome === "interpreted";
    });
    expect(left.length / all.length, left.join(" ")).toBeLessThan(0.25);
  });

  it.each(readdirSync(FAMILIES))(
    "of %s is compiled, and prints random conversations as the interpreter does",
    (file) => {
      const source = readFileSync(`${FAMILIES}/${file}`, "utf8");
      expect(new ChatTemplate(source, {}).isCompiled).toBe(true);
      const template = new Template(source);
      rewriteStripCalls(template.parsed);
      const rng = createRng(file);
      let compared = 0;
      for (let i = 0; i < 200; i++) {
        const { messages, tools = null } = rng.choice(PROBES);
        const variables = {
          messages: messages.slice(rng.integer(2), 1 + rng.integer(messages.length)),
          ...{ tools: rng.choice([tools, null]), documents: null, bos_token: "<s>", ...STRIP_FUNCTIONS },
          ...{
            add_generation_prompt: rng.choice([true, false]),
            enable_thinking: rng.choice([true, false, undefined]),
          },
        };
        const outcome = byCompiled(template, variables);
        if (outcome === "interpreted") continue;
        expect(outcome).toEqual(interpreted(template, variables));
        compared += 1;
      }
      expect(compared).toBeGreaterThan(100);
    },
  );

  it("leaves to the interpreter what it does not know", () => {
    // Where a template is not compiled, or cannot say, the interpreter prints or refuses it.
    const source = "{{ messages[0].content * 2 }}";
    expect(new ChatTemplate("{% filter upper %}x{% endfilter %}", {}).isCompiled).toBe(false);
    expect(() => new ChatTemplate(source, {}).render([{ role: "user", content: "x" }], undefined, {})).toThrow(
      /the chat template says: /,
    );
  });
});
