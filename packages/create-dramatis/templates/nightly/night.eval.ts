import { defineEval, gate, noAlarms, within } from 'dramatis/evals'
import team from './team.js'

export default defineEval({
  name: 'nightly',
  team,
  cases: [{ id: 'the samples', input: 'documents' }],
  gates: [
    gate('each document is in the report once', ({ output }) =>
      ['kettles.md', 'lamps.md', 'parcels.md'].every((name) => output?.split(`- ${name}:`).length === 2),
    ),
    noAlarms(),
    within({ modelCalls: 3, tokens: 20_000 }),
  ],
})
