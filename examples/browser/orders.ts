// A site that each episode has to itself, and what is paid for on it: `npx whet train examples/browser/orders.ts --model MODEL`.
import { defineBrowserTask, defineJob, deriveSeed, grpo } from "@whetstone/sdk";

const GOODS = ["bread", "milk", "salt", "tea"];

/** For a site that is elsewhere leave `serve` out, and let `check` look at what it is given of the page. */
export const orders = defineBrowserTask<{ readonly seed?: number }>({
  kind: "orders",
  description: "Goods are ordered on a page with forms.",
  seedable: true,
  create: (args, { seed: episode }) => {
    const seed = args.seed ?? episode;
    const item = GOODS[deriveSeed(seed, "item") % GOODS.length] ?? "tea";
    const amount = 2 + (deriveSeed(seed, "amount") % 8);
    const basket = new Map<string, number>();
    return {
      goal: `Put ${amount} of ${item} into the basket, and nothing else. Say "done" then.`,
      url: "http://orders.test/",
      serve: ({ method, body }) => {
        const form = new URLSearchParams(body);
        if (method === "POST") basket.set(form.get("item") ?? "", Number(form.get("amount")));
        return page(basket);
      },
      check: ({ messages }) => {
        const isRight = basket.size === 1 && basket.get(item) === amount;
        const done = messages.length > 0;
        return { reward: done && isRight ? 1 : 0, done };
      },
      settings: { maxSteps: 5, maxTreeCharacters: 4000 },
    };
  },
});

function page(basket: ReadonlyMap<string, number>): string {
  const forms = GOODS.map(
    (item) => `<form method="post"><input type="hidden" name="item" value="${item}">
      <input name="amount" aria-label="Amount of ${item}"><button>Order ${item}</button></form>`,
  );
  const ordered = [...basket].map(([item, amount]) => `<li>${amount} of ${item}</li>`);
  return `<title>Orders</title><h1>Basket</h1><ul>${ordered.join("")}</ul>${forms.join("")}`;
}

export default defineJob({
  agent: { kind: "web", args: { history: "last" } },
  environment: orders,
  train: { seeds: { first: 1, count: 100_000 } },
  algorithm: grpo({ groupSize: 8, learningRate: 1e-6 }),
  loop: { steps: 100, batchGroups: 16 },
  sampling: { temperature: 1, maxTokens: 128 },
  limits: { maxSteps: 5, maxPromptTokens: 6144, maxResponseTokens: 640, episodeTimeout: "300s" },
});
