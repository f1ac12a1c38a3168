/** The programs of the second half of docs/how-to run and print what their pages say. */
import t from 'tap'
import { pagesBelow } from './page.ts'
import { runPage } from './run-page.ts'

for (const path of pagesBelow('docs/how-to')) if (path >= 'docs/how-to/q') runPage(t, path)
