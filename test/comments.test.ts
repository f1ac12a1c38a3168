/** Comments can be read by a newcomer: they begin with their subject, and end at 120 columns (CONTRIBUTING.md). */
import t from 'tap'
import { sourceFiles } from './source-files.ts'

const COMMENTS = /\/\*\*?([\s\S]*?)\*\/|(?:^|\s)\/\/ ?(.*)$/gm
const HIDES_ITS_SUBJECT = /^(What|Who|Whom|Whose|Of|Whether|Where|One|It|Its)\b/
const COLUMNS = 120

t.test('no comment of src hides its subject behind what, who, of, whether, where, one or it', async (t) => {
  const found: string[] = []
  let comments = 0
  for (const { path, text } of sourceFiles.filter(({ path }) => path.startsWith('src/')))
    for (const [all, block, line] of text.matchAll(COMMENTS)) {
      const words = (block ?? line)!.replace(/^\s*\*? ?/gm, '').trim()
      comments += 1
      if (HIDES_ITS_SUBJECT.test(words)) found.push(`${path}: ${all.trim().slice(0, 80)}`)
    }
  t.ok(comments > 4_000, `${comments} comments`)
  t.same(found, [])
})

t.test('no comment of src is longer than 120 columns', async (t) => {
  const isComment = /^\s*(\/\*\*?|\*|\/\/) /
  const long = sourceFiles
    .filter(({ path }) => path.startsWith('src/'))
    .flatMap(({ path, text }) =>
      text
        .split('\n')
        .flatMap((line, at) => (isComment.test(line) && line.length > COLUMNS ? `${path}:${at + 1}` : [])),
    )
  t.same(long, [])
})
