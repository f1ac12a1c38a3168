/** The programs of the pages of docs/how-to from u to z run and print what their pages say. */
import t from 'tap'
import { pagesFromTo } from './page.ts'
import { runPage } from './run-page.ts'

for (const path of pagesFromTo('docs/how-to', 'u', 'z')) runPage(t, path)
