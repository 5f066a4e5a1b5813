// SPDX-License-Identifier: Apache-2.0
// What pages may reach: each guard holds, and what it holds gets through where it is taken away.
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canHaveBrowsers, startTestPool } from "../../test-support/index.ts";
import { BrowserEnvironment } from "../browser-environment.ts";
import type { Observation } from "../episode/observation.ts";
import type { Guard } from "../guards.ts";
import type { WebTask } from "../task/web-task.ts";
import type { Lease } from "./lease.ts";

const VIEWPORT = { width: 332, height: 214 };

describe.runIf(canHaveBrowsers)("what pages reach", { timeout: 120_000 }, () => {
  /** What the job names, and what it does not: a service of the platform, say. */
  let site: Server;
  let platform: Server;
  let folder: string;
  const seen: string[] = [];
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "whetstone-reach-"));
    writeFileSync(join(folder, "secret.txt"), "secret of the host");
    platform = createServer(({ url }, response) => {
      seen.push(url ?? "");
      response.writeHead(200, { "access-control-allow-origin": "*", "content-type": "text/html" }).end("platform");
    });
    platform.on("upgrade", ({ url }, socket) => {
      seen.push(url ?? "");
      socket.destroy();
    });
    await once(platform.listen(0, "127.0.0.1"), "listening");
    site = createServer(({ url, headers }, response) => {
      if (url === "/moved") response.writeHead(302, { location: `${at(platform)}/by-redirect` }).end();
      else if (url === "/cookies") response.end(headers.cookie ?? "none");
      else {
        const cookie = { "set-cookie": "who=me; max-age=9999", "content-type": "text/html" };
        response.writeHead(200, url === "/" ? cookie : { "content-type": "text/html" });
        response.end(`<button onclick="localStorage.who = 'me'">site</button>`);
      }
    });
    await once(site.listen(0, "127.0.0.1"), "listening");
  });
  afterAll(() => {
    for (const server of [site, platform]) {
      server.closeAllConnections();
      server.close();
    }
    rmSync(folder, { recursive: true });
  });

  const at = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const named = (): string => at(site).replace("http://", "");

  /** A page of an episode that reaches the site. */
  async function withPage<T>(without: readonly Guard[], work: (page: Page, lease: Lease) => Promise<T>): Promise<T> {
    await using own = await startTestPool({ without: new Set(without) });
    await using lease = await own.pool.lease({ viewport: VIEWPORT, sites: [], reach: [named()] });
    return await work(await lease.context.newPage(), lease);
  }

  it("the site that is named is reached, through the sandbox and the proxy", async () => {
    const text = await withPage([], async (page) => {
      await page.goto(at(site));
      return await page.textContent("button");
    });
    expect(text).toBe("site");
  });

  /** What a page does to get to the platform, and which guard alone holds it. */
  const ways: readonly (readonly [string, Guard[], (page: Page) => Promise<unknown>])[] = [
    [
      "/by-request",
      ["requests", "proxy", "sandbox"],
      (page) => page.evaluate(`fetch("${at(platform)}/by-request", { mode: "no-cors" })`),
    ],
    ["/by-redirect", ["proxy", "sandbox"], (page) => page.goto(`${at(site)}/moved`)],
    [
      "/by-socket",
      ["proxy", "sandbox"],
      (page) =>
        page.evaluate(
          `new Promise((resolve) => { const s = new WebSocket("${at(platform).replace("http", "ws")}/by-socket"); s.onclose = s.onerror = resolve; })`,
        ),
    ],
  ];
  it("the platform is not, by none of three ways; without its guards each of them gets there", async () => {
    for (const [path, guards, go] of ways) {
      const attempt = (without: readonly Guard[]) =>
        withPage(without, async (page) => {
          await page.goto(at(site));
          await go(page).catch(() => undefined);
        });
      await attempt([]);
      expect([path, seen.includes(path)]).toEqual([path, false]);
      await attempt(guards);
      expect([path, seen.includes(path)]).toEqual([path, true]);
    }
  });

  it("what is refused is told, by its address", async () => {
    const refused = await withPage([], async (page, lease) => {
      await page.goto(at(site));
      await page.evaluate(`fetch("${at(platform)}/x", { mode: "no-cors" }).catch(() => 0)`);
      return lease.requests.refused;
    });
    expect(refused).toEqual([`${at(platform)}/x`]);
  });

  it("files of the host are not there, whatever a page or an action asks for; without a sandbox and its rules they are", async () => {
    const read = (without: readonly Guard[]) =>
      withPage(without, async (page) => {
        await page.goto(`file://${folder}/secret.txt`).catch(() => undefined);
        return await page.textContent("body").catch(() => "");
      });
    expect(await read([])).not.toContain("secret");
    expect(await read(["requests"])).not.toContain("secret"); // The sandbox has no such file.
    expect(await read(["requests", "sandbox", "proxy"])).toContain("secret of the host");
  });

  it("the action goto opens nothing but what the job names, and the agent is told", async () => {
    await using own = await startTestPool();
    const task: WebTask = {
      viewport: VIEWPORT,
      setup: async () => "go",
      judge: async () => ({ reward: 0, done: false }),
    };
    const env = new BrowserEnvironment({ pool: () => own.pool, task });
    await env.reset({ seed: 1 });
    const addresses = [
      "file:///etc/passwd",
      "chrome://version",
      "view-source:http://a",
      "javascript:alert(1)",
      "ftp://a/b",
    ];
    for (const address of [...addresses, "nonsense", at(platform)]) {
      const { observation } = await env.step(`goto(${JSON.stringify(address)})`);
      const { lastActionError, url } = observation as Observation;
      expect([lastActionError, url]).toEqual([`Error: ${address} cannot be opened here`, "about:blank"]);
    }
    await env.close();
  });

  it("another episode's cookies and storage are not there; in a context that is shared they are", async () => {
    const second = async (without: readonly Guard[]) => {
      await using own = await startTestPool({ without: new Set(without) });
      const settings = { viewport: VIEWPORT, sites: [], reach: [named()] };
      await using first = await own.pool.lease(settings);
      const page = await first.context.newPage();
      await page.goto(at(site));
      await page.click("button");
      await using other = await own.pool.lease(settings);
      const otherPage = await other.context.newPage();
      await otherPage.goto(`${at(site)}/cookies`);
      return [await otherPage.textContent("body"), await otherPage.evaluate("localStorage.who ?? 'none'")];
    };
    expect(await second([])).toEqual(["none", "none"]);
    expect(await second(["own context", "proxy", "sandbox"])).toEqual(["who=me", "me"]);
  });
});
