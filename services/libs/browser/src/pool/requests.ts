// SPDX-License-Identifier: Apache-2.0
import type { BrowserContext, Request, Route } from "playwright-core";
import type { Without } from "../guards.ts";
import type { ContextSettings } from "./context-settings.ts";
import type { SiteAnswer, SiteRequest } from "./site.ts";

/** What became of an episode's requests. */
export interface Requests {
  /** Addresses that were refused, the newest last; at most some. */
  readonly refused: readonly string[];
}

const MAX_TOLD = 20;
const PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443" };

/**
 * "host:port" of what is connected to for an address. Undefined: none is needed, or none can be (files, settings of the browser).
 */
export function targetOf(url: URL): string | undefined {
  const port = url.port || PORTS[url.protocol];
  return port === undefined ? undefined : `${url.hostname}:${port}`.toLowerCase();
}

/** Each request of a context is answered by a site of this process, let go to what the episode may reach, or refused. */
export async function keepRequests(
  context: BrowserContext,
  settings: ContextSettings,
  without: Without,
): Promise<Requests> {
  const refused: string[] = [];
  const refuse = async (route: Route, address: string): Promise<void> => {
    refused.push(address.slice(0, 200));
    if (refused.length > MAX_TOLD) refused.shift();
    await route.abort("blockedbyclient");
  };
  const isReached = mayReach(settings.reach);
  await context.route("**/*", async (route) => {
    const address = route.request().url();
    const url = URL.parse(address);
    const site = settings.sites.find(({ origin }) => origin === url?.origin);
    try {
      if (site !== undefined && url !== null)
        await route.fulfill(followed(await site.answer(asked(route.request(), url))));
      else if (without.has("requests") || (url !== null && isReached(url))) await route.continue();
      else await refuse(route, address);
    } catch {
      // The page has gone on, or is gone.
    }
  });
  return { refused };
}

function asked(request: Request, { pathname, search }: URL): SiteRequest {
  return {
    method: request.method(),
    path: `${pathname}${search}`,
    headers: request.headers(),
    body: request.postDataBuffer() ?? undefined,
  };
}

/** What a redirect leads to is not asked about, it would be looked for on the network: so a page leads there. */
function followed(answer: SiteAnswer): SiteAnswer {
  const { location } = answer.headers;
  if (location === undefined || answer.status < 300 || answer.status >= 400) return answer;
  const target = JSON.stringify(location).replaceAll("<", "\\u003c");
  const body = Buffer.from(`<!doctype html><script>location.replace(${target})</script>`);
  return { status: 200, headers: { "content-type": "text/html" }, body };
}

/** Whether pages may be at an address, by what the episode reaches. */
export function mayReach(reach: readonly string[]): (url: URL) => boolean {
  const named = new Set(reach.map((each) => each.toLowerCase()));
  return (url) => {
    const target = targetOf(url);
    return target !== undefined && named.has(target);
  };
}
