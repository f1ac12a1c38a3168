import { answers, defineEval, noAlarms, scorer, within } from 'dramatis/evals'
import team, { Plan } from './team.js'

/** Measured, and not demanded: the words of the rehearsal model mean nothing. */
const addsUp = scorer('the total adds up', ({ data }) => {
  const { items, totalEuros } = Plan.parse(data)
  return items.reduce((sum, { count, euros }) => sum + count * euros, 0) === totalEuros
})

export default defineEval({
  name: 'team',
  team,
  cases: [
    { id: 'birthday', input: 'A birthday for ten.' },
    { id: 'tea', input: 'Tea for two, for at most 20 EUR.' },
  ],
  gates: [answers(Plan), noAlarms(), within({ modelCalls: 20 })],
  scorers: [addsUp],
})
