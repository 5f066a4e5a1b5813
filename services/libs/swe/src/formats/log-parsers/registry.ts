// SPDX-License-Identifier: Apache-2.0
import type { LogParser } from "../test-status.ts";
import * as line from "./by-line.ts";
import { parseDjango } from "./django.ts";
import { parseGradle, parseMaven } from "./java.ts";
import { parseMatplotlib, parsePytest, parsePytestOptions, parsePytestV2, parseSeaborn } from "./pytest.ts";
import { parseSympy } from "./sympy.ts";

/** By the names that SWE-bench's instances use. Its parsers for browser tests (most of SWE-bench Multimodal) are not here. */
const PARSERS: Readonly<Record<string, LogParser>> = {
  parse_log_pytest: parsePytest,
  parse_log_pytest_options: parsePytestOptions,
  parse_log_pytest_v2: parsePytestV2,
  parse_log_django: parseDjango,
  parse_log_seaborn: parseSeaborn,
  parse_log_sympy: parseSympy,
  parse_log_matplotlib: parseMatplotlib,
  parse_log_astroid: parsePytest,
  parse_log_flask: parsePytest,
  parse_log_marshmallow: parsePytest,
  parse_log_pvlib: parsePytest,
  parse_log_pyvista: parsePytest,
  parse_log_sqlfluff: parsePytest,
  parse_log_xarray: parsePytest,
  parse_log_pydicom: parsePytestOptions,
  parse_log_requests: parsePytestOptions,
  parse_log_pylint: parsePytestOptions,
  parse_log_astropy: parsePytestV2,
  parse_log_scikit: parsePytestV2,
  parse_log_sphinx: parsePytestV2,
  parse_log_gotest: line.parseGoTest,
  parse_log_cargo: line.parseCargo,
  parse_log_redis: line.parseRedis,
  parse_log_jq: line.parseJq,
  parse_log_micropython_test: line.parseMicropython,
  parse_log_googletest: line.parseGoogleTest,
  parse_log_ant: line.parseAnt,
  parse_log_maven: parseMaven,
  parse_log_gradle_custom: parseGradle,
  parse_log_phpunit: line.parsePhpUnit,
  parse_log_minitest: line.parseMinitest,
  parse_log_cucumber: line.parseCucumber,
  parse_log_ruby_unit: line.parseRubyUnit,
  parse_log_rspec_transformed_json: line.parseRspec,
  parse_log_jest: line.parseJest,
  parse_log_jest_json: line.parseJestJson,
  parse_log_vitest: line.parseVitest,
  parse_log_tap: line.parseTap,
  parse_log_marked: line.parseMarked,
};

export const LOG_PARSERS: ReadonlyMap<string, LogParser> = new Map(Object.entries(PARSERS));

/** What instances without `log_parser`, from before SWE-bench 5, are read with. */
export const PARSER_OF_REPOSITORY: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "astropy/astropy": "parse_log_astropy",
    "django/django": "parse_log_django",
    "marshmallow-code/marshmallow": "parse_log_marshmallow",
    "matplotlib/matplotlib": "parse_log_matplotlib",
    "mwaskom/seaborn": "parse_log_seaborn",
    "pallets/flask": "parse_log_flask",
    "psf/requests": "parse_log_requests",
    "pvlib/pvlib-python": "parse_log_pvlib",
    "pydata/xarray": "parse_log_xarray",
    "pydicom/pydicom": "parse_log_pydicom",
    "pylint-dev/astroid": "parse_log_astroid",
    "pylint-dev/pylint": "parse_log_pylint",
    "pytest-dev/pytest": "parse_log_pytest",
    "pyvista/pyvista": "parse_log_pyvista",
    "scikit-learn/scikit-learn": "parse_log_scikit",
    "sqlfluff/sqlfluff": "parse_log_sqlfluff",
    "sphinx-doc/sphinx": "parse_log_sphinx",
    "sympy/sympy": "parse_log_sympy",
  }),
);
