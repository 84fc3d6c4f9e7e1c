// Make device.min.js of device.js: `npm install && npm run build`; with --check only tell whether it is as it would be.
import fs from "node:fs";
import { minify } from "terser";

// Names that only device.js itself knows: neither entries of device files nor of its interface (device.d.ts).
const INNER = "metresFrom|metresTo|exactSquare|roughBeta|roughUnit|roughHeight|roughWidth|canEnter|heaviest|columnsFrom|cellsFrom|squaresTo|squares|weightOf|drawByRow|rowOf|decide|propose|oneSided|exactly|isExact|isPlane|tops|integers|terms|reports|chances|isBelow|word32|word64|findAnswer|beginDay|isWithin|reaches|stepsOf|between|slope|placed|up|down|low|high|share|square|shift|words|word|bits|rate|rough|steps|margin|beta|kept|roads|ways|strict|plane|unit|height|width|shape|limits|rule|within|facts|scale|logs|needed|across|steep|shortest|pool|below|starts|ends|lengths|reached|mean|found|sampler|say|next|tall|wide|reach|weight|size|file|name|wait";
const source = fs.readFileSync(new URL("device.js", import.meta.url), "utf8");
const options = {
  module: true,
  ecma: 2020,
  compress: { passes: 3, unsafe_arrows: true, pure_getters: true, keep_fargs: false },
  mangle: { toplevel: true, properties: { builtins: true, regex: new RegExp(`^(${INNER})$`) } },
  format: { comments: false },
};
const code = (await minify(source, options)).code.replace(/\bconst /g, "let "); // one word for both packs better
const place = new URL("device.min.js", import.meta.url);
if (!process.argv.includes("--check")) fs.writeFileSync(place, code);
else if (fs.readFileSync(place, "utf8") !== code) {
  console.error("device.min.js is not what device.js becomes; run npm run build");
  process.exit(1);
}
