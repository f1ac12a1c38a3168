/**
 * Patterns with classes of Unicode are made where they are used: each takes V8 0.1 to 0.5 ms, in every thread that loads
 * the file, whether it needs them or not.
 */
import t from 'tap'
import { codeLines, type SourceFile, sourceFiles } from './source-files.ts'

/** Returns the lines of constants of a file, in no function, that have such a pattern. */
function madeOnLoad(file: SourceFile): string[] {
  let inConstant = false
  return codeLines(file).flatMap(({ line, number }) => {
    if (/^[^\s)\]}]/.test(line)) inConstant = /^(export )?const /.test(line) && !/=>/.test(line)
    return inConstant && line.includes('\\p{') ? [`${file.path}:${number}`] : []
  })
}

t.test('no file of src makes a pattern with classes of Unicode as it is loaded', async (t) => {
  t.same(sourceFiles.flatMap(madeOnLoad), [])
})

t.test('such patterns are found, alone and in a list', async (t) => {
  const text = 'const A = /\\p{L}/u\nexport const B = [\n  /\\p{N}/u,\n]\nconst c = () => [\n  /\\p{N}/u,\n]\n'
  t.same(madeOnLoad({ path: 'file.ts', text }), ['file.ts:1', 'file.ts:3'])
})
