// SPDX-License-Identifier: Apache-2.0
import type { DescMessage, DescMethod, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Deadline } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { Role } from "@whetstone/tls";

/** What a handler knows about its call. */
export interface CallContext {
  /** Aborts on the client's cancel or disconnect, on the deadline, and on the server's shutdown. */
  readonly signal: AbortSignal;
  /** The caller's deadline; without one it never expires by itself. */
  readonly deadline: Deadline;
  /** Who the caller is by its certificate; undefined without TLS. */
  readonly caller: Role | undefined;
  /** Has the method bound. */
  readonly logger: Logger;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds from now; travels to the server. Unary calls default to the client's; streams to none. */
  readonly deadlineMs?: number | undefined;
  /** A unary call ends as soon as nobody is there, instead of waiting until its deadline for a server that starts. */
  readonly failFast?: boolean | undefined;
}

/** The methods of a generated service: `typeof JobService["method"]`. */
type Methods<S extends DescService> = S["method"];

type Input<M> = M extends { readonly input: infer I extends DescMessage } ? I : never;
type Output<M> = M extends { readonly output: infer O extends DescMessage } ? O : never;
type Kind<M> = M extends { readonly methodKind: infer K extends DescMethod["methodKind"] } ? K : never;

interface HandlerKinds<I extends DescMessage, O extends DescMessage> {
  unary: (request: MessageShape<I>, context: CallContext) => Promise<MessageInitShape<O>> | MessageInitShape<O>;
  server_streaming: (request: MessageShape<I>, context: CallContext) => AsyncIterable<MessageInitShape<O>>;
  client_streaming: never;
  bidi_streaming: (
    requests: AsyncIterable<MessageShape<I>>,
    context: CallContext,
  ) => AsyncIterable<MessageInitShape<O>>;
}

interface ClientKinds<I extends DescMessage, O extends DescMessage> {
  unary: (request: MessageInitShape<I>, options?: CallOptions) => Promise<MessageShape<O>>;
  server_streaming: (request: MessageInitShape<I>, options?: CallOptions) => AsyncIterable<MessageShape<O>>;
  client_streaming: never;
  bidi_streaming: (
    requests: AsyncIterable<MessageInitShape<I>>,
    options?: CallOptions,
  ) => AsyncIterable<MessageShape<O>>;
}

/** The handlers of a service. One that is missing answers UNIMPLEMENTED. */
export type Handlers<S extends DescService> = {
  readonly [K in keyof Methods<S>]?: HandlerKinds<Input<Methods<S>[K]>, Output<Methods<S>[K]>>[Kind<Methods<S>[K]>];
};

/** One function a method, typed by the descriptor. */
export type ServiceClient<S extends DescService> = {
  readonly [K in keyof Methods<S>]: ClientKinds<Input<Methods<S>[K]>, Output<Methods<S>[K]>>[Kind<Methods<S>[K]>];
};

/** A service and its handlers, ready for `startServer`. */
export interface ServiceImplementation {
  readonly service: DescService;
  readonly handlers: Readonly<Record<string, unknown>>;
}

/** Binds handlers to their service; the compiler checks each against the descriptor. */
export function implement<S extends DescService>(service: S, handlers: Handlers<S>): ServiceImplementation {
  return { service, handlers };
}
