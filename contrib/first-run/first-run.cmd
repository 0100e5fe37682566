@echo off
rem Tries on this Windows what no test under Wine can show, in some minutes, and writes result.txt beside this file.
rem
rem   first-run.cmd          in the directory for temporary files
rem   first-run.cmd E:\try   in E:\try: another disk, a stick with exFAT, a share
rem
rem It makes directories of its own there, removes them, and touches nothing else. docs\release-checklist.md has the rest.
setlocal
cd /d "%~dp0"
set DIRCOPY_EXE=%CD%
if not "%~1"=="" set TMP=%~1
if not "%~1"=="" set TEMP=%~1
set RESULT=%CD%\result.txt
echo dircopy: first run on Windows > "%RESULT%"
ver >> "%RESULT%"
echo in %TMP% >> "%RESULT%"
fsutil fsinfo volumeinfo %TMP:~0,2%\ >> "%RESULT%" 2>&1
whoami /priv >> "%RESULT%" 2>&1
dircopy.exe --version >> "%RESULT%" 2>&1
echo === units >> "%RESULT%"
echo Units of the program ...
units.exe --test-threads 1 >> "%RESULT%" 2>&1
echo exit code %ERRORLEVEL% >> "%RESULT%"
echo === promises >> "%RESULT%"
echo Its promises on Windows ...
windows.exe --test-threads 1 >> "%RESULT%" 2>&1
echo exit code %ERRORLEVEL% >> "%RESULT%"
echo === a copy, judged by Windows >> "%RESULT%"
echo A copy of its pages ...
set TRY=%TMP%\dircopy-first-run
md "%TRY%"
dircopy.exe docs "%TRY%" --verify >> "%RESULT%" 2>&1
echo exit code %ERRORLEVEL% >> "%RESULT%"
dirverify.exe "%TRY%" >> "%RESULT%" 2>&1
echo exit code %ERRORLEVEL% >> "%RESULT%"
findstr architecture.md "%TRY%\dircopy-*.sha256sum" >> "%RESULT%" 2>&1
certutil -hashfile "%TRY%\architecture.md" SHA256 >> "%RESULT%" 2>&1
rd /s /q "%TRY%"
echo === end >> "%RESULT%"
echo Please read %RESULT% and send it back: it names no file of yours.
