/** Eight words instead of a model: what there is to beat. */
import { answers, defineEval, noAlarms, sameJson } from 'dramatis/evals'
import { reviewCases } from './reviews.ts'
import { opinionSchema, plainReader, reviewTeam } from './team.ts'

export default defineEval({
  name: 'reviews',
  team: () => reviewTeam(plainReader()),
  cases: reviewCases(30),
  gates: [noAlarms(), answers(opinionSchema)],
  scorers: [sameJson()],
})
