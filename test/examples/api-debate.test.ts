/** The debate of the second source document, as a new user starts it. */
import t from 'tap'
import { start } from './start.ts'

t.test('the debate goes over three rounds, sends back what has no evidence, and ends with an answer', async (t) => {
  const { status, stdout, stderr } = start('api-debate')
  t.equal(status, 0, stderr)
  const speakers = stdout.match(/^(advocate|critic|judge)(?=:)/gm) ?? []
  t.same(speakers, ['advocate', 'critic', 'advocate', 'critic', 'critic', 'advocate', 'critic', 'judge', 'judge'])
  t.match(stdout, /^critic: One query can bring the database down\.\n\$orchestrator asks critic/m)
  t.match(stdout, /^critic: One query can ask for very much.*\n {2}- https:\/\/graphql\.org\/learn\/security\/$/m)
  t.match(stdout, /^judge: The winner is critic\./m)
  t.match(stdout, /# Answer\n\nNo, do not migrate: add a GraphQL endpoint/)
  t.equal(stderr.match(/^ {2}(advocate|critic): web_search /gm)?.length, 4)
  t.match(stderr, /Who has won the debate\? critic \(The judge "judge" says so/)
})
