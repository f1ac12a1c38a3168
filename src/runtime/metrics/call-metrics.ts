/** Metrics of a team's calls of models and tools. */
import type { CallTallies } from './call-tallies.ts'
import type { Metric } from './prometheus.ts'
import { counter, histogram } from './prometheus.ts'

const NOBODY = 'the agent is empty for those that belong to one run'

export function callMetrics({ models, modelErrors, modelTimes, tools, toolErrors, toolTimes }: CallTallies): Metric[] {
  return [
    counter(
      'model_calls',
      `Calls of models, each with all its attempts; ${NOBODY}.`,
      models.samples(({ calls }, labels) => [{ labels, value: calls }]),
    ),
    counter(
      'model_tokens',
      `Tokens that models have read (input) and written (output); ${NOBODY}.`,
      models.samples(({ input, output }, labels) => [
        { labels: { ...labels, direction: 'input' }, value: input },
        { labels: { ...labels, direction: 'output' }, value: output },
      ]),
    ),
    counter(
      'model_errors',
      'Calls of models without an answer, by the reason (error.modelFailure.reason).',
      modelErrors.samples(({ count }, labels) => [{ labels, value: count }]),
    ),
    histogram(
      'model_call_duration',
      'From the call of a model to its whole answer, attempts and pauses between them too.',
      modelTimes.samples((times, labels) => times.samples(labels)),
    ),
    counter(
      'tool_calls',
      `Calls of tools that have ended; ${NOBODY}.`,
      tools.samples(({ count }, labels) => [{ labels, value: count }]),
    ),
    counter(
      'tool_errors',
      'Calls of tools that have failed, by the code of the error.',
      toolErrors.samples(({ count }, labels) => [{ labels, value: count }]),
    ),
    histogram(
      'tool_duration',
      'From the start of a tool to its end.',
      toolTimes.samples((times, labels) => times.samples(labels)),
    ),
  ]
}
