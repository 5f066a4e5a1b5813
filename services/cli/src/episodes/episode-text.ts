// SPDX-License-Identifier: Apache-2.0
/** An episode as a person reads it: turn by turn, and, if wanted, token by token. */
import { versionOfEachToken } from "@whetstone/core";
import type { Episode, Image, ModelCall, Step } from "@whetstone/proto/types/v1/types";
import {
  FailureClass,
  FailureClassSchema,
  PurposeSchema,
  TerminationReasonSchema,
} from "@whetstone/proto/types/v1/types";

import { enumShortName } from "../terminal/enum-names.ts";
import { formatImage, formatNumber, formatSeconds } from "../terminal/format.ts";
import type { Painter } from "../terminal/watch-view.ts";
import { seconds } from "../terminal/watch-view.ts";

export interface EpisodeTextOptions {
  /** Ids, log-probabilities and version labels of every token. */
  readonly tokens: boolean;
  readonly paint: Painter;
  /** Absent: not trained (yet). */
  readonly trainedInStep?: number;
}

export function episodeText(episode: Episode, options: EpisodeTextOptions): string[] {
  const calls = new Map(episode.calls.map((call) => [call.id, call]));
  const images = new Map(episode.images.map((image) => [image.digest, image]));
  const lines = [...episodeHead(episode, options)];
  for (const trajectory of episode.trajectories) {
    lines.push("", options.paint("bold", `${trajectory.role}: reward ${formatNumber(trajectory.reward)}`));
    trajectory.steps.forEach((step, index) => lines.push(...turn(step, index, { calls, images }, options)));
    if (trajectory.finalObservation !== "")
      lines.push(...block("at the end", trajectory.finalObservation, options.paint));
  }
  return lines;
}

/** What it was, and how it ended. */
export function episodeHead(episode: Episode, { paint, trainedInStep }: EpisodeTextOptions): string[] {
  const failure = episode.failure;
  const failed =
    failure && failure.failureClass !== FailureClass.NONE && failure.failureClass !== FailureClass.UNSPECIFIED;
  const trained = trainedInStep === undefined ? "not trained" : `trained in step ${trainedInStep}`;
  return [
    `${paint("bold", episode.id)}  ${enumShortName(PurposeSchema, episode.purpose).toLowerCase()}, attempt ${episode.attempt}, ${trained}${episode.masked ? ", masked" : ""}`,
    `task ${episode.task?.id ?? "–"}  payload ${JSON.stringify(episode.task?.payload ?? {})}  seed ${episode.seed}`,
    `reward ${formatNumber(episode.reward)}  ${episode.isCorrect ? paint("green", "correct") : paint("red", "not correct")}  ended by ${enumShortName(TerminationReasonSchema, episode.terminationReason)}  ${formatSeconds(seconds(episode.timing?.total))}`,
    ...(failed
      ? [
          paint(
            "red",
            `failed: ${enumShortName(FailureClassSchema, failure.failureClass)} in ${failure.phase}: ${failure.message} (${failure.code})`,
          ),
        ]
      : []),
  ];
}

interface Kept {
  readonly calls: ReadonlyMap<string, ModelCall>;
  readonly images: ReadonlyMap<string, Image>;
}

function turn(step: Step, index: number, { calls, images }: Kept, options: EpisodeTextOptions): string[] {
  const { paint } = options;
  const call = calls.get(step.callId);
  const pictures = step.imageDigests.flatMap((digest) => images.get(digest) ?? []).map(formatImage);
  const done = step.done ? "  done" : "";
  return [
    "",
    paint("cyan", `turn ${index + 1}`),
    ...block("observation", step.observation, paint),
    ...(pictures.length > 0 ? block("images", pictures.join("\n"), paint) : []),
    ...(step.thought ? block("thought", step.thought, paint) : []),
    ...block("answer", step.modelResponse, paint),
    `  ${paint("dim", "action".padEnd(12))}${printable(step.action) || "(none)"}`,
    `  ${paint("dim", "reward".padEnd(12))}${formatNumber(step.reward)}, return ${formatNumber(step.mcReturn)}${done}`,
    ...(call && options.tokens ? callTokens(call, paint) : []),
  ];
}

/** A label, and the text beside it, indented as a block. */
function block(label: string, text: string, paint: Painter): string[] {
  const lines = printable(text).split("\n");
  return lines.map((line, index) => `  ${paint("dim", (index === 0 ? label : "").padEnd(12))}${line}`);
}

/** A model may answer anything, terminal commands included: control characters are shown, not obeyed. */
export function printable(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\u{fffd}");
}

const IDS_A_LINE = 16;

function callTokens(call: ModelCall, paint: Painter): string[] {
  const label = (text: string): string => `  ${paint("dim", text.padEnd(12))}`;
  const prompt = chunk(call.promptIds.map(String), IDS_A_LINE).map(
    (ids, index) => label(index === 0 ? "prompt ids" : "") + ids.join(" "),
  );
  const parent = call.parentId === "" ? "a root" : `continues ${call.parentId}`;
  const versions = versionOfEachToken(call.completionIds.length, call.versionSpans);
  const sampled = call.completionIds.map((id, index) => {
    const version = versions[index];
    const text = `${String(id).padStart(7)}  ${(call.logprobs[index] ?? NaN).toFixed(4).padStart(9)}  ${version === undefined ? paint("red", "unlabelled") : `v${version}`}`;
    return label(index === 0 ? "sampled" : "") + text;
  });
  return [`${label("call")}${call.id}, ${parent}, finish ${call.finishReason}`, ...prompt, ...sampled];
}

function chunk<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}
