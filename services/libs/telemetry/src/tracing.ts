// SPDX-License-Identifier: Apache-2.0
import { type Span, SpanStatusCode, trace, type Tracer } from "@opentelemetry/api";

export interface TracingOptions {
  readonly serviceName: string;
  /** OTLP over HTTP, such as `http://collector:4318/v1/traces`. Absent: off, and the SDK is not even loaded. */
  readonly endpoint?: string | undefined;
}

export interface Tracing extends AsyncDisposable {
  readonly enabled: boolean;
  readonly tracer: Tracer;
}

export async function startTracing(options: TracingOptions): Promise<Tracing> {
  if (options.endpoint === undefined) return offline(options.serviceName);
  const [{ NodeTracerProvider, BatchSpanProcessor }, { OTLPTraceExporter }, { resourceFromAttributes }] =
    await Promise.all([
      import("@opentelemetry/sdk-trace-node"),
      import("@opentelemetry/exporter-trace-otlp-http"),
      import("@opentelemetry/resources"),
    ]);
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": options.serviceName }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: options.endpoint }))],
  });
  provider.register();
  return {
    enabled: true,
    tracer: provider.getTracer(options.serviceName),
    [Symbol.asyncDispose]: () => provider.shutdown(),
  };
}

function offline(serviceName: string): Tracing {
  return { enabled: false, tracer: trace.getTracer(serviceName), [Symbol.asyncDispose]: () => Promise.resolve() };
}

/** Runs `fn` inside a span that ends with it and records its error. */
export async function withSpan<T>(tracer: Tracer, name: string, fn: (span: Span) => Promise<T>): Promise<T> {
  return await tracer.startActiveSpan(name, async (span) => {
    try {
      return await fn(span);
    } catch (error) {
      span.recordException(error instanceof Error ? error : String(error));
      span.setStatus({ code: SpanStatusCode.ERROR });
      throw error;
    } finally {
      span.end();
    }
  });
}
