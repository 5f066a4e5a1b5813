// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import type { OpenOptions, SandboxBackend } from "../src/sandbox.ts";

/** More than all buffers on the way hold. */
const ECHOED_BYTES = 8_000_000;

/** Python: prints what an URL gives; `connect:` sends and gets ECHOED_BYTES through CONNECT, `direct:` has no proxy. */
const GET = `
import http.client, os, socket, sys, urllib.request, urllib.error, urllib.parse
url = urllib.parse.urlsplit(sys.argv[1])
if url.scheme == "http":
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode(), end="")
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
elif url.scheme == "direct":
    socket.create_connection((url.hostname, url.port), timeout=5)
else:
    proxy = urllib.parse.urlsplit(os.environ["https_proxy"])
    c = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=60)
    c.set_tunnel(url.hostname, url.port)
    c.request("GET", "/tunnelled", body=b"x" * ${ECHOED_BYTES})
    answer = c.getresponse().read()
    print(answer[:-${ECHOED_BYTES}].decode(), answer.count(b"x"), end="")
`;

/** Says the method and path of a request, then as many bytes as it had. It listens at all addresses of the loopback. */
async function echoServer(): Promise<{ readonly port: number } & AsyncDisposable> {
  const server = createServer((request, response) => {
    let bytes = 0;
    request.on("data", (data: Buffer) => (bytes += data.length));
    request.once("end", () => response.end(`${request.method} ${request.url}${"x".repeat(bytes)}`));
  });
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** What every backend promises of the network: what a job names is reached, and nothing else. */
export function describeReach(backend: () => SandboxBackend, limits: OpenOptions["limits"]): void {
  async function open(reach: readonly string[]) {
    const sandbox = await backend().open({ limits, reach });
    const get = async (url: string): Promise<string> => {
      const { stdout, stderr } = await sandbox.exec(["python3", "-c", GET, url], { stdin: "" }).result;
      return stdout + stderr;
    };
    return { get, [Symbol.asyncDispose]: () => sandbox.close() };
  }

  describe("reaches what is named", () => {
    it("through its proxy, by URLs of http and by CONNECT, and nothing else", async () => {
      await using target = await echoServer();
      const named = `127.0.0.2:${target.port}`;
      await using own = await open([named]);
      expect(await own.get(`http://${named}/a?b`)).toBe("GET /a?b");
      expect(await own.get(`connect://${named}`)).toBe(`GET /tunnelled ${ECHOED_BYTES}`);
      expect(await own.get(`http://127.0.0.3:${target.port}/`)).toMatch(/403 .* is not in sandbox\.network/u);
      expect(await own.get(`direct://${named}`)).toMatch(/refused|unreachable/iu);
      const many = Array.from({ length: 8 }, () => own.get(`http://${named}/x`));
      expect(new Set(await Promise.all(many))).toEqual(new Set(["GET /x"]));
    });

    it("says why it is not reached", async () => {
      await using own = await open(["169.254.169.254:80", "127.0.0.2:1", "nowhere.invalid:80"]);
      expect(await own.get("http://169.254.169.254/")).toMatch(/403 .*no sandbox may reach/u);
      expect(await own.get("http://127.0.0.2:1/")).toMatch(/502 .*cannot be reached/u);
      expect(await own.get("http://nowhere.invalid/")).toMatch(/502 .*was not found/u);
    });

    it("only where something is named", async () => {
      await using own = await open([]);
      expect(await own.get("direct://127.0.0.2:1")).toMatch(/refused|unreachable|not permitted|not supported/iu);
      expect(await own.get("connect://127.0.0.2:1")).toMatch(/KeyError/u);
      await expect(backend().open({ reach: ["no port"] })).rejects.toThrow(/reach\[0\]: /u);
    });
  });
}
