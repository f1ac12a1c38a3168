import { defineEval, gate, noAlarms, within } from 'dramatis/evals'
import team from './team.js'

export default defineEval({
  name: 'nightly',
  team,
  cases: [{ id: 'the samples', input: 'samples' }],
  gates: [
    gate('each document is in the report once', ({ output }) =>
      ['cups.md', 'plates.md', 'spoons.md'].every((name) => output?.split(`- ${name}:`).length === 2),
    ),
    noAlarms(),
    within({ modelCalls: 3, tokens: 20_000 }),
  ],
})
