// SPDX-License-Identifier: Apache-2.0
// A tunnel against a real cluster: through the API server to whichever pod is ready.
import { execFileSync } from "node:child_process";
import { connect } from "node:net";

import { CliError } from "../cli-error.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { openCluster } from "./cluster.ts";
import { chooseContext } from "./kube-config.ts";
import { openTunnel } from "./pod-tunnel.ts";

const NAMESPACE = "whet-tunnel-test";
const IMAGE = process.env["WHETSTONE_TEST_IMAGE"] ?? "localhost/whetstone/controller:dev";
const ECHO = `require("net").createServer((s) => { s.write(process.env.HOSTNAME + "\\n"); s.pipe(s); s.on("error", () => {}); }).listen(9083)`;
const kubectl = (...args: string[]): string =>
  execFileSync("kubectl", ["-n", NAMESPACE, ...args], { encoding: "utf8" });

/** A server that says its pod's name, then what it is told. */
const deployment = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "echo" },
  spec: {
    replicas: 1,
    selector: { matchLabels: { app: "echo" } },
    template: {
      metadata: { labels: { app: "echo" } },
      spec: {
        terminationGracePeriodSeconds: 0,
        containers: [
          {
            name: "echo",
            image: IMAGE,
            command: ["node", "-e", ECHO],
            readinessProbe: { tcpSocket: { port: 9083 }, periodSeconds: 1 },
          },
        ],
      },
    },
  },
};

describe("a tunnel to a pod", () => {
  beforeAll(() => {
    execFileSync("kubectl", ["delete", "namespace", NAMESPACE, "--ignore-not-found"]);
    execFileSync("kubectl", ["create", "namespace", NAMESPACE]);
    execFileSync("kubectl", ["-n", NAMESPACE, "apply", "-f", "-"], { input: JSON.stringify(deployment) });
    kubectl("rollout", "status", "deployment/echo", "--timeout=60s");
  });
  afterAll(() => {
    execFileSync("kubectl", ["delete", "namespace", NAMESPACE, "--wait=false"]);
  });

  const target = { namespace: NAMESPACE, selector: "app=echo", port: 9083 };

  it("carries bytes both ways, side by side, and ends with the tunnel", async () => {
    const { config } = chooseContext("current", process.env);
    const tunnel = await openTunnel(config, target);
    const big = Buffer.alloc(3_000_000, "x");
    const [one, two] = [talk(tunnel.address), talk(tunnel.address)];
    one.write(big);
    two.write("hello");
    expect(await two.reads((text) => text.endsWith("hello"))).toMatch(/^echo-.*\nhello$/s);
    expect((await one.reads((text) => text.length > big.length)).endsWith("xxx")).toBe(true);
    await tunnel[Symbol.asyncDispose]();
    await Promise.all([one.ended, two.ended]);
  });

  it("ends with its pod, and the next connection finds the successor", async () => {
    const { config } = chooseContext("current", process.env);
    await using tunnel = await openTunnel(config, target);
    const before = talk(tunnel.address);
    const first = await before.reads((text) => text.includes("\n"));
    kubectl("delete", "pod", "-l", "app=echo", "--grace-period=0", "--force", "--wait=false");
    await before.ended;
    const after = talk(tunnel.address);
    const second = await after.reads((text) => text.includes("\n"));
    expect(second).toMatch(/^echo-/);
    expect(second).not.toBe(first);
  });

  it("refuses a port where nobody listens by ending the connection", async () => {
    const { config } = chooseContext("current", process.env);
    await using tunnel = await openTunnel(config, { ...target, port: 1 });
    await talk(tunnel.address).ended;
  });

  it("says what to do where Whetstone is not, and where there is no such context", async () => {
    const environment = process.env;
    await expect(openCluster({ context: "current", namespace: NAMESPACE }, environment)).rejects.toThrow(
      /Whetstone is not in namespace whet-tunnel-test/,
    );
    await expect(openCluster({ context: "nowhere" }, environment)).rejects.toThrow(CliError);
  });
});

function talk(address: string) {
  const socket = connect(Number(address.split(":")[1]), "127.0.0.1");
  let text = "";
  socket.on("error", () => undefined);
  socket.setEncoding("latin1").on("data", (chunk: string) => (text += chunk));
  const ended = new Promise((resolve) => socket.once("close", resolve));
  const reads = async (enough: (text: string) => boolean): Promise<string> => {
    const gone = ended.then(() => Promise.reject(new Error(`the connection ended after "${text.slice(0, 200)}"`)));
    while (!enough(text)) await Promise.race([new Promise((resolve) => socket.once("data", resolve)), gone]);
    return text;
  };
  return { write: (data: string | Buffer) => socket.write(data), reads, ended };
}
