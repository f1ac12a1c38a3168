/** Measures a reader of reviews against a simpler one, over labelled data. Exit code 1 if it is not good enough. */
import { evalText, runEval } from 'dramatis/evals'
import plain from './plain.eval.ts'
import reviews from './reviews.eval.ts'

const before = await runEval(plain)
console.log(`Eight words:\n\n${evalText(before)}`)
const now = await runEval(reviews, { against: before })
console.log(`The reader, held against them:\n\n${evalText(now)}`)
const missed = now.results.filter(({ scores }) => scores.sameJson?.score === 0)
console.log(`It misses ${missed.length} of ${now.results.length}, such as:`)
for (const { run } of missed.slice(0, 3)) console.log(`  ${run.case.id}: "${run.case.input}" is called ${run.output}`)
process.exitCode = now.verdict === 'passed' ? 0 : 1
