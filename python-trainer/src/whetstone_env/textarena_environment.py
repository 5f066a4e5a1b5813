# SPDX-License-Identifier: Apache-2.0
# pyright: reportMissingImports=false
"""Games of TextArena as they are, for one player or more: the kind `textarena`."""

from __future__ import annotations

from typing import Any

import textarena
from textarena.envs.registration import ENV_REGISTRY

from whetstone_env.arguments import Arguments
from whetstone_env.define import Kind
from whetstone_env.errors import TaskError, words_of
from whetstone_env.values import can_be_json


class TextArenaEnvironment:
    """`info.player` says whose turn it is; who has moved is not told what the next one sees.

    A move against the rules is the game's to judge: usually a second try, then a loss. With several players the reward
    is that of player 0, and `info.rewards` has all of them, by player.
    """

    def __init__(self, game: str, players: int = 1, config: dict[str, Any] | None = None) -> None:
        """`config`: settings of the game."""
        if game not in ENV_REGISTRY:
            raise TaskError(f"TextArena has no game {game!r}", "args.game")
        self._players = players
        try:
            self._game = textarena.make(game, **(config or {}))
        except TypeError as error:
            raise TaskError(words_of(error), "args.config") from None
        self._shown: dict[int, str] = {}

    def reset(self, seed: int) -> tuple[str, dict[str, Any]]:
        try:
            self._game.reset(num_players=self._players, seed=seed)
        except AssertionError as error:
            raise TaskError(str(error), "args.players") from None
        return self._seen()

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        done, _ = self._game.step(action=action if isinstance(action, str) else str(action))
        if not done:
            text, info = self._seen()
            return text, 0.0, False, False, info
        rewards, told = self._game.close()
        by_player = {str(player): float(reward) for player, reward in rewards.items()}
        info = {"rewards": by_player, "success": by_player["0"] >= 1, "players": _by_player(told)}
        return str(told[0].get("reason", "")), by_player["0"], True, False, info

    def _seen(self) -> tuple[str, dict[str, Any]]:
        """What the player who is next has not seen yet. Most games tell all from the beginning each time."""
        player, observation = self._game.get_observation()
        text = observation if isinstance(observation, str) else "\n".join(str(message[1]) for message in observation)
        new = text.removeprefix(self._shown.get(player, ""))
        self._shown[player] = text
        return new.strip("\n"), {"player": player}


def _by_player(told: dict[int, Any]) -> dict[str, Any]:
    return {str(player): value for player, value in told.items() if can_be_json(value)}


def textarena_kind() -> Kind:
    text = "A game of TextArena, graded by its own rules."
    return Kind("textarena", text, True, TextArenaEnvironment, Arguments(TextArenaEnvironment))
