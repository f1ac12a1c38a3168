/** Reviews that people have labelled, read by the model of the environment, or without a key by a longer list of words. */
import { answers, defineEval, noAlarms, sameJson } from 'dramatis/evals'
import { hasModel } from '../lib/has-model.ts'
import { reviewCases } from './reviews.ts'
import { carefulReader, opinionSchema, reviewTeam } from './team.ts'

export default defineEval({
  name: 'reviews',
  team: () => reviewTeam(hasModel() ? undefined : carefulReader()),
  cases: reviewCases(30),
  gates: [noAlarms(), answers(opinionSchema)],
  scorers: [{ scorer: sameJson(), atLeast: 0.5 }],
})
