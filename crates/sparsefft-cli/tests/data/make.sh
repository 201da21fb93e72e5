#!/bin/sh
# Makes the recordings of this directory: half a second of a tone at 1 kHz, half of full scale, at
# 8 kHz; stereo.flac has 1 kHz at the left and 2 kHz at the right. Needs sox, flac, vorbis-tools, lame
# and ffmpeg.
set -e
sox -n -r 8000 -b 16 -c 1 tone.wav synth 0.5 sine 1000 vol 0.5
sox -n -r 8000 -b 16 -c 2 stereo.wav synth 0.5 sine 1000 sine 2000 vol 0.5
flac -s -f --no-padding -b 512 tone.wav -o tone.flac
flac -s -f --no-padding -b 512 stereo.wav -o stereo.flac
sox tone.wav -b 24 tone.aiff
oggenc -Q -q 3 tone.wav -o tone.ogg
lame --quiet -b 32 tone.wav tone.mp3
ffmpeg -v error -y -i tone.wav -c:a alac tone-alac.m4a
ffmpeg -v error -y -i tone.wav -c:a aac -b:a 32k tone-aac.m4a
ffmpeg -v error -y -i tone.wav tone.caf
rm tone.wav stereo.wav
