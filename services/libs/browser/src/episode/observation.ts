// SPDX-License-Identifier: Apache-2.0
export interface TabView {
  readonly title: string;
  readonly url: string;
  readonly isActive: boolean;
}

/** What an agent sees, as JSON; the names are BrowserGym's where it has them. */
export interface Observation {
  readonly goal: string;
  /** Of the active tab. */
  readonly url: string;
  readonly tabs: readonly TabView[];
  /** The accessibility tree as text. */
  readonly axtree: string;
  readonly focusedElementBid: string;
  /** As the agent wrote it; "": none yet. */
  readonly lastAction: string;
  /** What was wrong with it; "": nothing. */
  readonly lastActionError: string;
}

/** The page alone, for agents that are told of goal and actions elsewhere. */
export function pageText({ tabs, axtree, focusedElementBid }: Observation): string {
  const told = tabs.map(
    ({ title, url, isActive }, i) =>
      `Tab ${i}${isActive ? " (active tab)" : ""}: ${title || "without a title"} (${url})`,
  );
  const focused = focusedElementBid === "" ? "" : `\nFocused element: bid='${focusedElementBid}'`;
  return `${told.join("\n")}${focused}\n\n${axtree}`;
}

/** All of it. */
export function textOf(observation: Observation): string {
  const { goal, lastAction, lastActionError } = observation;
  const error = lastActionError === "" ? "" : `\n\n# Error of the last action\n${lastAction}\n${lastActionError}`;
  return `# Goal\n${goal}\n\n# Page\n${pageText(observation)}${error}`;
}
